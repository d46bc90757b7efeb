"""What can be reproduced: names, presets, what each shows, what it takes. No code.

Each entry's module under `anchored.paper` has the experiment itself, as ``EXPERIMENT``, with its
settings for each preset that has seconds here.
"""

from collections.abc import Mapping
from typing import NamedTuple

# What the presets mean. Every experiment has the first two; `about` says which it has.
PRESETS = {
    "smoke": "seconds, to see that it works",
    "paper": "the paper's settings",
    "cpu": "what two cores can do in an hour",
    "paper-splits": "the paper's settings on the splits its authors drew",
    "defaults": "nothing set, beside rivals with nothing set",
    "tuned": "the files of `anchored tune` that --settings names",
}
UNKNOWN = float("nan")  # seconds that nobody has measured


class About(NamedTuple):
    """One artefact of the paper.

    Attributes
    ----------
    name : what one types.
    figure, title, claim : where it is in the paper, what it shows, and what the paper says of it.
    seconds : measured on two cores, for each preset; `UNKNOWN` where there was no such run.
    needs : data or extras beyond a plain install, at the ``paper`` preset.
    """

    name: str
    figure: str
    title: str
    claim: str
    seconds: Mapping[str, float]
    needs: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """Below `anchored.paper`: ``fig-rms-2d`` is in ``figures.rms_2d``."""
        kind, _, rest = self.name.partition("-")
        plain = (rest if kind in ("fig", "table") else self.name).replace("-", "_")
        return f"tables.{plain}" if kind == "table" else f"figures.{plain}"


_ENTRIES = (
    About(
        "fig-action",
        "figure 1",
        "Three networks become a predictive distribution",
        "A few networks that start apart and are trained with anchors spread about like a GP's "
        "predictive distribution, and more of them come closer to it.",
        {"smoke": 6, "paper": 13},
    ),
    About(
        "fig-rms-2d",
        "figure 2",
        "Exact randomised MAP sampling of two parameters",
        "If anchors are drawn with the covariance of theorem 1, their MAP solutions are draws of "
        "the exact posterior.",
        {"smoke": 1, "paper": 1},
    ),
    About(
        "fig-rms-cases",
        "figure 3",
        "Anchors from the prior: general and exact cases",
        "With anchors from the prior the mean is right, variances are too small and correlations "
        "too large; perfectly correlated and extrapolation parameters are recovered exactly.",
        {"smoke": 1, "paper": 1},
    ),
    About(
        "fig-methods",
        "figure 4",
        "Inference methods on six points",
        "GP and HMC are the gold standard; variational inference and MC dropout do a poor job of "
        "capturing interpolated uncertainty.",
        {"smoke": 15, "paper": 330},
        ("the extra `baselines`",),
    ),
    About(
        "nuts-check",
        "beside figure 4",
        "NUTS, the exact posterior at finite width, and the GP",
        "GP and HMC are both taken as ground truth; this asks how far they agree.",
        {"smoke": 15, "paper": 400},
        ("the extra `baselines`",),
    ),
    About(
        "fig-likelihoods",
        "figure 5",
        "Conditional likelihoods of single parameters",
        "Around a trained network the likelihood of one parameter, the others held, looks close "
        "enough to normal for the theory's assumption to be reasonable.",
        {"smoke": 10, "paper": 90},
        ("boston.txt and the four MNIST files, from ANCHORED_DATA or the web",),
    ),
    About(
        "fig-losses",
        "figure 6",
        "What the loss of an ensemble does to its spread",
        "Regularising all members to one point takes their diversity; leaving them unconstrained "
        "keeps it, but no notion of a prior is left and they overfit.",
        {"smoke": 20, "paper": 100},
        ("the extra `baselines`",),
    ),
    About(
        "fig-kl",
        "figure 7",
        "Distance to the exact posterior by width and number of members",
        "The difference of the two predictive distributions decreases with the width of the "
        "networks and with their number; a small one remains at 40 networks of 1,024 nodes.",
        {"smoke": 12, "paper": 970},
        ("boston.txt, from ANCHORED_DATA or the web",),
    ),
    About(
        "fig-convergence",
        "figure 8",
        "More networks, closer to the GP",
        "With more networks the predictive distribution of an anchored ensemble approaches that "
        "of a GP; a small difference remains.",
        {"smoke": 7, "paper": 13},
    ),
    About(
        "fig-correlated",
        "figure 9",
        "Perfectly correlated weights in a network of two nodes",
        "Two nodes that switch on between the same data points have perfectly correlated output "
        "weights, and anchoring recovers their posterior but for rounding.",
        {"smoke": 1, "paper": 1},
    ),
    About(
        "appendix-b",
        "appendix B",
        "The examples of appendix B",
        "Worked examples bear out the theory: too little variance and too much correlation in "
        "general, exact recovery of tied and of free parameters; more than two parameters behave "
        "like two.",
        {"smoke": 1, "paper": 1},
    ),
    About(
        "table-fashion",
        "Tables 2 (bottom) and 7",
        "Confidence on unfamiliar images: Fashion-MNIST",
        "Anchored ensembles make the fewest confident predictions on inputs far from the training "
        "data, at the same confidence on the training data.",
        {"smoke": 80, "cpu": 500, "paper": 2500},
        ("Fashion-MNIST, MNIST and CIFAR-10",),
    ),
    About(
        "table-imdb",
        "Table 2 (middle)",
        "Confidence on unfamiliar texts: IMDb",
        "Anchored ensembles make the fewest confident predictions on texts that are no reviews.",
        {"smoke": 34, "cpu": 140, "paper": 700},
        ("IMDb and Reuters",),
    ),
    About(
        "table-cifar",
        "Table 2 (top)",
        "Confidence on unfamiliar images: CIFAR-10",
        "Anchored ensembles make the fewest confident predictions on most kinds of unfamiliar "
        "images; of noise, a single regularised network is nearly always sure.",
        {"smoke": 40, "cpu": 3100, "paper": UNKNOWN},
        ("CIFAR-10, Fashion-MNIST and MNIST",),
    ),
    About(
        "table-uci",
        "Tables 1, 4, 5 and 6",
        "UCI regression: every method on every split",
        "Anchored ensembles are the best where the data have little noise, ahead of Deep Ensembles "
        "and of other approximate inference, and competitive elsewhere.",
        # Of the cells in docs/benchmarks.
        {"smoke": 30, "paper": 4100, "paper-splits": 1900, "defaults": 5500, "tuned": UNKNOWN},
        ("the UCI tables",),
    ),
)
CATALOGUE = {about.name: about for about in _ENTRIES}
FIGURES = tuple(name for name in CATALOGUE if not name.startswith("table-"))
