"""The three loops of decisions run, and do what they say."""

import numpy as np

from examples import abstain_loop, label_loop, optimise_loop


def test_the_optimiser_goes_on_from_its_file(tmp_path):
    optimise_loop.main(tmp_path, rounds=3)
    optimiser = optimise_loop.main(tmp_path, rounds=2)
    assert len(optimiser.told) == 20
    assert optimiser.best.y > max(told.y for told in optimiser.told[:8])


def test_labels_are_asked_once(capsys):
    _, labelled = label_loop.main(rounds=2, n_pool=80)
    assert len(set(labelled.tolist())) == len(labelled) == 40
    assert "40 rows and 100 more, by twin" in capsys.readouterr().out


def test_rows_are_left_to_a_person():
    decisions, came = abstain_loop.main(epochs=60, most_cost=0.2)
    assert 0 < np.mean(decisions.rejected) < 1
    assert came < 1  # all malignant rows sent home would cost 7
