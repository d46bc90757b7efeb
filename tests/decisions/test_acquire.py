"""Rows to label: against exact conditioning, exact joint information and each other."""

import itertools

import numpy as np
import pytest

from anchored import AnchoredClassifier, AnchoredRegressor
from anchored.decisions import acquire
from anchored.decisions.acquire import diverse, most_information, variance_reduction


def total_variance(cov, noise, taken):
    """Of all rows after labels of some, in closed form."""
    some = cov[np.ix_(taken, taken)] + np.diag(noise[taken])
    return np.trace(cov - cov[:, taken] @ np.linalg.solve(some, cov[taken]))


def test_each_row_is_the_best_after_those_before_it():
    rng = np.random.default_rng(0)
    deviations, noise = rng.normal(size=(1, 8, 20)), rng.uniform(0.1, 2, size=(1, 20))
    cov = deviations[0].T @ deviations[0]
    taken = variance_reduction(deviations, noise, 5).tolist()
    for place in range(5):
        before = taken[:place]
        rest = [i for i in range(20) if i not in before]
        left = [total_variance(cov, noise[0], [*before, i]) for i in rest]
        assert rest[int(np.argmin(left))] == taken[place]


def test_targets_decide_which_variance_is_to_fall():
    deviations = np.array([[[3.0, 0.0], [0.0, 1.0]]])  # two rows that say nothing of each other
    noise = np.ones((1, 2))
    assert variance_reduction(deviations, noise, 1).tolist() == [0]
    second = deviations[:, :, 1:]
    assert variance_reduction(deviations, noise, 1, second).tolist() == [1]


def joint_information(p, taken):
    """Mutual information of labels and the member, over all joint labels."""
    n_members, _, n_classes = p.shape
    joint = np.array(
        [
            [
                np.prod([p[m, r, k] for r, k in zip(taken, labels, strict=True)])
                for m in range(n_members)
            ]
            for labels in itertools.product(range(n_classes), repeat=len(taken))
        ]
    )
    mixed = joint.mean(axis=1)
    return -np.sum(mixed * np.log(mixed)) + np.mean(np.sum(joint * np.log(joint), axis=0))


def test_labels_are_taken_for_their_joint_information():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(3, 0.7), size=(5, 12))
    p[:, 11] = p[:, 0]  # a row that repeats another
    taken = most_information(rng, p, 4).tolist()
    for place in range(4):
        before = taken[:place]
        rest = [i for i in range(12) if i not in before]
        found = [joint_information(p, [*before, i]) for i in rest]
        assert max(found) == pytest.approx(found[rest.index(taken[place])], abs=1e-12)


def test_drawn_joint_labels_still_find_rows_that_tell_something():
    """Ten rows tell the members apart, the others nothing; of 3^10 joint labels some are drawn."""
    rng = np.random.default_rng(2)
    p = np.repeat(rng.dirichlet(np.ones(3), size=(1, 30)), 40, axis=0)
    p[:, :10] = rng.dirichlet(np.full(3, 0.3), size=(40, 10))
    assert sorted(most_information(rng, p, 10)) == list(range(10))


def test_diverse_rows_are_far_from_each_other_and_from_labelled_ones():
    x = np.array([[0.0], [0.1], [5.0], [9.0], [9.1]])
    rng = np.random.default_rng(0)
    assert diverse(rng, x, 2, np.array([[0.0]])).tolist() == [4, 2]
    assert sorted(diverse(rng, x, 5)) == [0, 1, 2, 3, 4]


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-1, -0.3, size=(30, 1)), rng.uniform(0.3, 1, size=(30, 1))])
    short = {"n_members": 6, "hidden": (20,), "epochs": 100, "random_state": 0}
    regressor = AnchoredRegressor(**short, noise_var=0.01).fit(x, np.sin(3 * x[:, 0]))
    classifier = AnchoredClassifier(**short).fit(x, np.where(x[:, 0] > 0, "high", "low"))
    return regressor, classifier


@pytest.mark.parametrize("method", ["auto", "variance", "diverse", "random"])
def test_every_method_takes_different_rows(models, method):
    pool = np.linspace(-2, 2, 41)[:, None]
    for model in models:
        taken = acquire(model, pool, 6, method=method)
        assert len(set(taken.tolist())) == 6


def test_members_ask_for_rows_far_from_the_data(models):
    pool = np.linspace(-4, 4, 41)[:, None]
    first = acquire(models[0], pool, 1)
    assert abs(pool[first[0], 0]) > 2
    # Of the classes they ask between them, where members draw the border differently.
    near = pool[acquire(models[1], pool[10:31], 1) + 10]
    assert abs(near[0, 0]) < 0.5


def test_what_is_wrong_is_named(models):
    with pytest.raises(ValueError, match="`method` must be one of auto"):
        acquire(models[0], np.zeros((3, 1)), 1, method="bal")
    with pytest.raises(ValueError, match="`n` must be a whole number from 1 to 3"):
        acquire(models[0], np.zeros((3, 1)), 4)
    with pytest.raises(ValueError, match='"bald" is for classes'):
        acquire(models[0], np.zeros((3, 1)), 1, method="bald")
