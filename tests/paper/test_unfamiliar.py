"""The tables on unfamiliar inputs: from made-up data to record, sentences and picture."""

import dataclasses

import numpy as np
import pytest
from benchmarks import ood_page
from typer.testing import CliRunner

from anchored import paper
from anchored.cli import app
from anchored.core.likelihoods import Categorical
from anchored.datasets.images import Images
from anchored.datasets.texts import Texts
from anchored.paper.plotting import picture
from anchored.paper.tables import cifar, fashion, imdb, unfamiliar, unfamiliar_record
from anchored.paper.tables.unfamiliar_published import ACCURACY, METHODS, SHARE
from anchored.prediction.predictive import Predictive

MODULES = {"table-fashion": fashion, "table-imdb": imdb, "table-cifar": cifar}


def made_up_images(name, data_dir=None):
    """A bright patch for each class, in the shape of the real images."""
    rng = np.random.default_rng(len(name))
    shape = (32, 32, 3) if name == "cifar-10" else (28, 28)
    labels = np.arange(240) % 10
    x = rng.integers(0, 60, (240, *shape))
    for row, label in enumerate(labels):
        x[row, 2 * label : 2 * label + 4] += 150
    x = x.astype(np.uint8)
    return Images(x[:160], labels[:160], x[160:], labels[160:])


def made_up_texts(name, data_dir=None):
    rng = np.random.default_rng(len(name))
    words = np.array(["fine", "good", "dull", "bad", *(f"w{i}" for i in range(150))])
    labels = np.arange(120) % 2
    texts = [
        " ".join([*rng.choice(words[:2] if label else words[2:4], 4), *rng.choice(words, 30)])
        for label in labels
    ]
    return Texts(texts[:80], labels[:80], texts[80:], labels[80:])


@pytest.fixture
def made_up(monkeypatch):
    """Tiny data and tiny settings in place of the real ones."""
    monkeypatch.setattr(unfamiliar, "SIZES", dict.fromkeys(unfamiliar.SIZES, (1, 2)))
    names = tuple(f"{n}x {m}" for m in unfamiliar.SIZES for n in (1, 2))
    monkeypatch.setattr(unfamiliar, "METHODS", names)
    for module in MODULES.values():
        load = "load_texts" if module is imdb else "load_images"
        monkeypatch.setattr(module, load, made_up_texts if module is imdb else made_up_images)
    return names


def settings_of(module):
    epochs = dict.fromkeys(unfamiliar.SIZES, 2)
    changes = {"n_seeds": 1, "epochs": epochs, "batch_size": 20, "n_train": 100, "n_test": 30}
    return dataclasses.replace(module.PAPER, **changes, narrower=64)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_every_kind_of_input_is_scored(name, made_up):
    module, context = MODULES[name], paper.Context(0, None)
    settings = settings_of(module)
    cells = {cell.label: cell.compute() for cell in module.EXPERIMENT.plan(settings, context)}
    numbers = module.EXPERIMENT.combine(
        settings, {label: {**result, "seconds": 1.0} for label, result in cells.items()}
    )
    kinds = {kind for members in module.GROUPS.values() for kind in members}
    assert set(numbers["methods"]) == set(made_up)
    assert set(numbers["examples"]) == kinds | {"train"}
    for method, scores in numbers["methods"].items():
        assert set(scores["shifts"]) == kinds
        assert len(scores["accuracy"]) == 1
        for shift in scores["shifts"].values():
            assert np.all((np.array(shift["share"]) >= 0) & (np.array(shift["share"]) <= 1))
            assert np.isclose(np.sum(shift["histogram"]), 1.0)
            signs = set(unfamiliar.SIGNS[:2]) if method.startswith("1x") else set(unfamiliar.SIGNS)
            assert set(shift["auroc"]) == set(shift["aupr"]) == signs


def test_another_seed_is_another_ensemble(made_up):
    settings, task = settings_of(fashion), fashion.make_task(settings_of(fashion), None)
    one, again, other = (
        unfamiliar._cell(settings, 0, lambda: task, run, "anchored")["2x anchored"]
        for run in (0, 0, 1)
    )
    assert one["nll"] == again["nll"] != other["nll"]


def test_scores_agree_with_counting_by_hand():
    members = np.array([[[0.95, 0.05], [0.6, 0.4]], [[0.97, 0.03], [0.2, 0.8]]])
    dist = Predictive.from_members(members, np.zeros_like(members), Categorical.family)
    found = unfamiliar._sureness(dist)
    assert found["share"] == 0.5  # 0.96 and 0.6
    assert found["entropy"] == pytest.approx(np.mean(dist.entropy))
    assert found["histogram"][19] == found["histogram"][12] == 0.5
    apart = unfamiliar._separation(dist, dist)["auroc"]
    assert apart == dict.fromkeys(unfamiliar.SIGNS, 0.5)


def record_of(table: str, module) -> dict:
    """A record whose numbers are the paper's, in two equal seeds."""
    kinds = [kind for members in module.GROUPS.values() for kind in members]
    rng, bins = np.random.default_rng(0), np.full(20, 0.05)

    def sureness(share: float) -> dict:
        return {"share": [share] * 2, "entropy": [1.0 - share] * 2, "histogram": bins}

    methods = {}
    for m in METHODS:
        paper = SHARE[table].get(m, dict.fromkeys(["train", *kinds], 0.01))
        signs = unfamiliar.SIGNS[: 2 if m.startswith("1x") else 3]
        apart = {name: {sign: [0.8, 0.9] for sign in signs} for name in ("auroc", "aupr")}
        methods[m] = {
            "accuracy": [ACCURACY[table].get(m, 88.0)] * 2,
            "nll": [0.3, 0.3],
            "ece": [0.02, 0.03],
            "ece_tempered": [0.01, 0.01],
            "temperature": [1.1, 1.2],
            "train": sureness(paper["train"]),
            "test": sureness(0.6),
            "shifts": {kind: sureness(paper[kind]) | apart for kind in kinds},
        }
    images = {kind: rng.integers(0, 255, (8, 8), np.uint8) for kind in ["train", *kinds]}
    examples = dict.fromkeys(images, "some words") if table == "imdb" else images
    return {"numbers": {"methods": methods, "examples": unfamiliar._as_text(examples)}}


@pytest.mark.parametrize("table", ["fashion", "imdb", "cifar"])
def test_the_papers_own_numbers_show_what_the_paper_says(table):
    module = MODULES[f"table-{table}"]
    record, experiment = record_of(table, module), module.EXPERIMENT
    told = experiment.findings(record)
    assert told[0].count("+0.0") == len(ACCURACY[table])
    furthest = [line for line in told if "confident predictions on" in line and "random 3" in line]
    furthest += [line for line in told if "confident predictions on noise" in line]
    assert furthest
    assert all("lowest is 5x anchored; in the paper it is 5x anchored." in f for f in furthest)
    tables = experiment.tables(record)
    assert all(len(row) == len(t.header) for t in tables for row in t.rows)
    accuracy, train = tables[0].rows[3][1:3]
    assert accuracy == "{0:.1f} ± 0.0 [{0:.1f}]".format(ACCURACY[table]["5x anchored"])
    assert train == "{0:.3f} ± 0.000 [{0:.3f}]".format(SHARE[table]["5x anchored"]["train"])
    assert picture(lambda figure: experiment.draw(figure, record), experiment.size)["png"]


def test_the_appendix_gives_the_main_table():
    """Its columns are means over the appendix's kinds of input."""
    shares = [
        unfamiliar_record.paper_share("fashion", "5x anchored", kinds)
        for kinds in fashion.GROUPS.values()
    ]
    assert np.round(shares, 3).tolist() == [0.452, 0.065, 0.041, 0.246, 0.006]


def test_the_page_is_made_from_its_records():
    assert ood_page.PAGE.read_text(encoding="utf-8") == ood_page.page()


def test_records_hold_what_the_page_says_of_them():
    for record in ood_page.records():
        experiment, settings = paper.get(record["name"]), record["settings"]
        assert settings["n_seeds"] == len(record["numbers"]["methods"]["5x anchored"]["accuracy"])
        assert record["findings"] == experiment.findings(record)
        assert [t["rows"] for t in record["tables"]] == [
            [list(row) for row in t.rows] for t in experiment.tables(record)
        ]


def test_a_preset_that_a_table_lacks_is_refused():
    result = CliRunner().invoke(app, ["reproduce", "table-fashion", "--preset", "gpu"])
    assert result.exit_code == 2
    assert "--preset must be one of smoke, paper, cpu; got 'gpu'" in result.output
    result = CliRunner().invoke(app, ["reproduce", "fig-kl", "--preset", "cpu"])
    assert "--preset must be one of smoke, paper; got 'cpu'" in result.output
