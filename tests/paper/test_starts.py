"""Where members start under the paper's settings: settled on training rows alone, and kept to."""

import json

import numpy as np
from benchmarks import paper_starts

from anchored.datasets import Split
from anchored.paper.tables.uci.paper import PAPER_SETTINGS, STARTED_AS_NETWORKS
from anchored.tuning import Settings

SETTINGS = Settings((8,), "relu", 0.05, 50.0, 16, 0.02, 5, 0.99)


def test_the_presets_start_members_where_the_record_says():
    record = json.loads(paper_starts.RECORD.read_text())
    assert set(record) == set(PAPER_SETTINGS) - {"song"}
    for name, scores in record.items():
        assert [len(nll) for nll in scores.values()] == [paper_starts.N_DIVISIONS[name]] * 2
        lower = np.mean(scores["network"]) < np.mean(scores["prior"])
        assert lower == (name in STARTED_AS_NETWORKS)


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
    monkeypatch.setattr(paper_starts, "RECORD", tmp_path / "starts.json")
    monkeypatch.setattr(
        paper_starts, "validation_nll", lambda *what: asked.append(what) or float(len(asked))
    )
    paper_starts.RECORD.write_text(json.dumps({"wine": {"prior": [0.5] * 4, "network": [0.5] * 3}}))
    paper_starts.main(["wine"])
    assert asked == [("wine", 3, False), ("wine", 4, True), ("wine", 4, False)]
    record = json.loads(paper_starts.RECORD.read_text())
    assert record == {"wine": {"prior": [0.5] * 4 + [2.0], "network": [0.5] * 3 + [1.0, 3.0]}}
    paper_starts.main(["wine"])
    assert len(asked) == 3
    assert "wine" in capsys.readouterr().out
