"""The published numbers are those of the paper's source and of the list of references."""

import re
from pathlib import Path

import pytest

from anchored.paper.tables.uci_published import PUBLISHED
from anchored.paper.tables.uci_scores import Score

SHARED = Path(__file__).resolve().parents[3] / "shared"
VARIANTS = (
    "relu-gp",
    "erf-gp",
    "anchored-5x50",
    "anchored-10x50",
    "anchored-5x50-50",
    "single-50",
)
INFERENCE = ("Drop conv.", "Drop tune", "VMG", "HS-BNN", "PBP-MV", "SGHMC tune", "SGHMC adap.")


def text_of(name):
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"no {name} in a folder `shared` beside the checkout")
    return path.read_text(encoding="utf-8")


def rows_of(label):
    """Rows of a LaTeX table as {data set: [cells]}, without their mark-up."""
    for table in re.findall(
        r"\\begin\{table\*?\}.*?\\end\{table\*?\}", text_of("paper/paper.tex"), re.S
    ):
        if rf"\label{{{label}}}" in table:
            break
    else:
        raise AssertionError(f"no table {label}")
    found = {}
    for line in table.splitlines():
        line = line.replace(r"\pm", "±").removesuffix("\\\\").rstrip().removesuffix("\\\\")
        line = re.sub(r"\\(bftab|mathbf|textcolor\{blue\})|[{}$*]", "", line)
        name, *cells = (cell.strip() for cell in line.split("&"))
        name = name.lower().removesuffix(" year")
        if name in PUBLISHED.hyperparameters:
            found[name] = [cell.replace(" ", "").replace(",", "") for cell in cells]
    assert len(found) >= 9
    return found


def score_of(cell):
    mean, _, error = cell.partition("±")
    return Score(float(mean), None if error == "NA" else float(error))


@pytest.mark.parametrize(("label", "skipped"), [("tab_rmse", 2), ("tab_nll", 1)])
def test_variants_are_tables_4_and_5(label, skipped):
    table = getattr(PUBLISHED, label.removeprefix("tab_"))
    rows = rows_of(label)
    assert len(rows) == 10
    for name, cells in rows.items():
        ours = [table[method][name] for method in VARIANTS]
        assert ours == [score_of(cell) for cell in cells[skipped:]], name


def test_table_1_repeats_table_5_beside_deep_ensembles():
    rows = rows_of("tab_regression")
    assert len(rows) == 10
    for name, cells in rows.items():
        ours = [PUBLISHED.nll[m][name] for m in ("deep-ensemble", "anchored-5x50", "relu-gp")]
        assert ours == [score_of(cell) for cell in cells[1:]], name


def test_inference_methods_are_table_6_with_signs_turned():
    rows = rows_of("tab_uci_comparison")
    assert len(rows) == 9
    for name, cells in rows.items():
        anchored, *others = [
            None if cell == "--" else score_of(cell)._replace(mean=-score_of(cell).mean)
            for cell in cells
        ]
        assert anchored == PUBLISHED.nll["anchored-5x50"][name]
        assert others == [PUBLISHED.inference[method].get(name) for method in INFERENCE], name
    assert all("song" not in scores for scores in PUBLISHED.inference.values())


def test_hyperparameters_are_the_paper_s():
    rows = rows_of("tab_exp_hypers")
    assert len(rows) == 10
    for name, cells in rows.items():
        ours = [float(f"{value:.12g}") for value in PUBLISHED.hyperparameters[name].values()]
        assert ours == [float(cell) for cell in cells[1:]], name


def test_references_are_those_of_the_list():
    lines = [line for line in text_of("FACTS.md").splitlines() if line.startswith("|")]
    rows = {}
    for line in lines:
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[name] = [float(cell) for cell in cells if re.fullmatch(r"-?\d+\.\d+", cell)]
    nll, inference, elsewhere = PUBLISHED.nll, PUBLISHED.inference, PUBLISHED.elsewhere
    columns = [nll["anchored-5x50"], nll["relu-gp"], nll["deep-ensemble"]]
    columns += [inference["Drop tune"], inference["PBP-MV"]]
    columns += [elsewhere[method] for method in ("NGBoost", "Evidential", "WGBoost")]
    for name in PUBLISHED.hyperparameters:
        ours = [column[name].mean for column in columns if name in column]
        assert [*ours, min(ours)] == rows[name], name


def test_the_numbers_cannot_be_changed():
    with pytest.raises(TypeError, match="does not support item assignment"):
        PUBLISHED.nll["relu-gp"]["boston"] = Score(0.0)  # type: ignore[index]
