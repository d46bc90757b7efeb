"""Where members start under the paper's settings: settled on training rows alone, and kept to."""

import json

import numpy as np
from benchmarks import beside_table_1, paper_starts

from anchored import paper
from anchored.datasets import Split
from anchored.paper.tables.uci_settings import PAPER_SETTINGS, STARTED_AS_NETWORKS
from anchored.tuning import Settings

SETTINGS = Settings((8,), "relu", 0.05, 50.0, 16, 0.02, 5, 0.99)


def test_the_presets_start_members_where_the_record_says():
    numbers = paper.load(beside_table_1.FOLDER, "paper-starts")["numbers"]
    plan = paper_starts.plan(paper_starts.Settings(), paper.Context(0, None))
    assert set(numbers) == {cell.label for cell in plan}
    for name in {label.split("/")[0] for label in numbers}:
        network, prior = (
            np.mean([cell["nll"] for label, cell in numbers.items() if f"{name}/{start}" in label])
            for start in ("network", "prior")
        )
        assert (network < prior) == (name in STARTED_AS_NETWORKS)


def test_no_row_of_the_test_part_is_looked_at(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    nothing = np.full((10, 3), np.nan)
    rows = Split(x, np.sin(x[:, 0]), nothing, nothing[:, 0])
    monkeypatch.setattr(paper_starts, "load_uci_split", lambda name, split: rows)
    monkeypatch.setitem(PAPER_SETTINGS, "boston", SETTINGS)
    seen = [paper_starts.validation_nll("boston", k, start) for k in (0, 1) for start in (0, 1)]
    assert np.isfinite(seen).all()
    assert len(set(seen)) == 4  # divisions and starts differ


def test_only_what_the_record_lacks_is_fitted(monkeypatch, tmp_path, capsys):
    asked = []
    monkeypatch.setattr(
        paper_starts, "validation_nll", lambda *what: asked.append(what) or float(len(asked))
    )
    beside_table_1.run(paper_starts.EXPERIMENT, ["wine"], tmp_path)
    assert asked == [("wine", division, start) for division in range(5) for start in (True, False)]
    record = paper.load(tmp_path, "paper-starts")
    assert record["numbers"]["wine/network/0"]["nll"] == 2.0
    del record["numbers"]["wine/network/3"]
    (tmp_path / "paper-starts.json").write_text(json.dumps(record))
    beside_table_1.run(paper_starts.EXPERIMENT, ["wine"], tmp_path)
    assert asked[10:] == [("wine", 3, False)]
    assert "wine/network/3" in capsys.readouterr().out
