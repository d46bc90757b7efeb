import warnings

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, make_regression
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from anchored import (
    MLP,
    AnchoredClassifier,
    AnchoredRegressor,
    ConvNet,
    Predictive,
    Prior,
    StudentT,
    TextCNN,
)
from anchored.core.loss import METHODS
from anchored.errors import DroppedMemberWarning, EnsembleError, Status

QUICK = {"n_members": 3, "epochs": 60, "batch_size": 64, "random_state": 0}
FIXED = QUICK | {"prior": 5.0}


@parametrize_with_checks(
    [
        AnchoredRegressor(n_members=2, epochs=150, hidden=(20,), noise_var=0.1, prior=2.0),
        AnchoredClassifier(n_members=2, epochs=150, hidden=(20,), prior=2.0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(60, 2))
    return X, 5 * X[:, 0] + 100 + 0.3 * rng.normal(size=60)


@pytest.fixture(scope="module")
def fitted(line):
    return AnchoredRegressor(n_members=5, epochs=800, random_state=0).fit(*line)


def test_defaults_need_no_hand(fitted, line):
    """Prior and noise by evidence: the noise is 0.09, known to about 20 % from 60 rows."""
    X, y = line
    assert fitted.score(X, y) > 0.95
    assert 0.4 < fitted.noise_var_[0] / 0.09 < 2.5
    dist = fitted.predict_dist([[0.0, 0.0], [9.0, 9.0]])
    assert dist.mean[0] == pytest.approx(100, abs=1)
    spread = np.sqrt(dist.epistemic_var)  # a straight line is chosen, whose own spread grows evenly
    assert spread[1] > 5 * spread[0] > 0


def test_every_way_to_ask(fitted):
    X = np.array([[0.1, 0.2], [0.5, -0.5], [3.0, 3.0]])
    dist = fitted.predict_dist(X)
    assert isinstance(dist, Predictive)
    assert dist.members.shape == (5, 3)
    np.testing.assert_array_equal(fitted.predict(X), dist.mean)
    interval = fitted.predict_interval(X, coverage=0.8)
    np.testing.assert_array_equal(interval, np.stack(dist.interval(0.8), axis=-1))
    levels = fitted.predict_quantiles(X, [0.1, 0.5, 0.9])
    assert levels.shape == (3, 3)
    np.testing.assert_allclose(levels[:, [0, 2]], interval, rtol=1e-9)
    np.testing.assert_allclose(dist.cdf(levels[:, 1]), 0.5, rtol=1e-6)


def test_sampled_functions_are_members(fitted, rng):
    X = rng.normal(size=(4, 2))
    functions = fitted.sample_functions(7, random_state=0)
    values = np.array([f(X) for f in functions])
    members = fitted.predict_dist(X).members
    which = [int(np.argmin(np.abs(members - v).sum(axis=1))) for v in values]
    np.testing.assert_allclose(values, members[which], rtol=1e-5)
    assert sorted(which[:5]) == [0, 1, 2, 3, 4]  # each once before any comes again
    np.testing.assert_allclose(functions[0](X[:1])[0], values[0, 0], rtol=1e-5)


def test_student_t_is_wider_than_gaussian(line):
    t, gaussian = (
        AnchoredRegressor(**FIXED, predictive=p).fit(*line).predict_interval([[2.0, 2.0]])
        for p in ("student-t", "gaussian")
    )
    assert np.diff(t) > 1.2 * np.diff(gaussian)


def test_noise_is_in_the_target_s_units(line):
    X, y = line
    model = AnchoredRegressor(**FIXED, noise_var=0.09).fit(X, y)
    np.testing.assert_allclose(model.predict_dist(X).aleatoric_var, 0.09)
    np.testing.assert_allclose(model.noise_var_, [0.09])
    # Metres or kilometres: the same model, up to the order of the rows and so the members' noise.
    metres = AnchoredRegressor(**FIXED, noise_var=0.09, method="anchored").fit(X, y)
    other = AnchoredRegressor(**FIXED, noise_var=0.09e6, method="anchored").fit(X, 1000 * y)
    np.testing.assert_allclose(other.predict(X), 1000 * metres.predict(X), rtol=1e-3)


def test_several_outputs_have_their_own_noise(rng):
    X = rng.normal(size=(80, 2))
    Y = np.stack([X[:, 0] + 0.05 * rng.normal(size=80), 10 * rng.normal(size=80)], axis=1)
    model = AnchoredRegressor(n_members=3, epochs=300, random_state=0).fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (80, 2)
    assert model.noise_var_[1] > 50 * model.noise_var_[0]
    assert model.predict_interval(X).shape == (80, 2, 2)
    assert model.compare_to_gp(X).n_rows == 80
    given = AnchoredRegressor(**FIXED, noise_var=[0.1, 90.0]).fit(X, Y)
    np.testing.assert_allclose(given.noise_var_, [0.1, 90.0])


def test_zero_weight_is_a_row_removed_and_weights_are_repetitions(line):
    X, y = line
    weight = np.arange(60) % 3
    model = AnchoredRegressor(**QUICK)
    weighted = clone(model).fit(X, y, sample_weight=weight).predict(X, return_std=True)
    repeated = clone(model).fit(X.repeat(weight, 0), y.repeat(weight)).predict(X, return_std=True)
    np.testing.assert_array_equal(weighted, repeated)


def test_order_of_rows_does_not_matter(line):
    X, y = line
    one, two = (
        AnchoredRegressor(**QUICK).fit(a, b).predict(X) for a, b in ((X, y), (X[::-1], y[::-1]))
    )
    np.testing.assert_array_equal(one, two)


def test_an_ensemble_of_one_is_the_single_network(line):
    X, y = line
    single = AnchoredRegressor(**FIXED | {"n_members": 1}, noise_var=0.1).fit(X, y)
    dist = single.predict_dist(X)
    np.testing.assert_array_equal(dist.epistemic_var, 0)
    regularised = AnchoredRegressor(**FIXED, method="regularised", noise_var=0.1).fit(X, y)
    np.testing.assert_allclose(dist.mean, regularised.predict_dist(X).members[0], rtol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_every_method(line, method):
    model = AnchoredRegressor(**FIXED, method=method).fit(*line)
    mean, std = model.predict(line[0], return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    if method == "deep":
        assert model.noise_var_ is None
        assert np.ptp(model.predict_dist(line[0]).aleatoric_var) > 0


def test_random_features_stay_at_the_anchors_and_are_near_the_gp():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=60)
    given = {"hidden": (400,), "noise_var": 0.09, "random_state": 0, "epochs": 3_000}
    model = AnchoredRegressor(**given, n_members=20, method="random-features").fit(X, y)
    classes = AnchoredClassifier(**QUICK, method="random-features").fit(X, y > 0)
    for ensemble in (model.ensemble_, classes.ensemble_):
        jax.tree.map(np.testing.assert_array_equal, ensemble.params[0], ensemble.centres[0])
    exact = model.compare_to_gp(X)
    assert exact.mean_error < 3 / np.sqrt(20)
    assert 0.8 < exact.variance_ratio < 1.25


def test_a_whole_prior_and_an_own_network(line):
    X, y = line
    network = MLP((12, 6), 1, "erf")
    prior = Prior.for_network(network, X, first_var=3.0).with_leaf("0/bias", variance=9.0)
    model = AnchoredRegressor(**QUICK, network=network, prior=prior).fit(X, y)
    assert model.ensemble_.network == network
    jax.tree.map(np.testing.assert_array_equal, model.prior_, prior)
    assert np.isfinite(model.compare_to_gp(X).kl)


def test_images_and_tokens(rng):
    images = rng.normal(size=(40, 6, 6, 1))
    labels = (images.mean(axis=(1, 2, 3)) > 0).astype(int)
    network = ConvNet(((4,),), (8,), 2)
    model = AnchoredClassifier(**QUICK | {"n_members": 2}, network=network).fit(images, labels)
    assert model.predict_proba(images).shape == (40, 2)
    tokens = rng.integers(0, 12, (40, 7))
    labels = np.where((tokens == 3).any(axis=1), "yes", "no")
    model = AnchoredClassifier(**QUICK, network=TextCNN(12, 4, 5, 3, 6, 2)).fit(tokens, labels)
    assert set(model.predict(tokens)) <= {"yes", "no"}


def test_gp_comparison(fitted, line):
    gap = fitted.compare_to_gp(line[0])
    assert gap.kl < 0.3
    assert 0.5 < gap.variance_ratio < 2
    assert "variance ratio" in str(gap)


def test_far_from_the_data_is_three_times_as_far_from_their_mean(fitted, line):
    """The rows compared outside are ordinary ones of another call."""
    centre = line[0].mean(axis=0)
    far = fitted.compare_to_gp(centre + 3 * (line[0] - centre))
    assert fitted.compare_to_gp(line[0]).outside_ratio == pytest.approx(far.epistemic_ratio, 1e-3)


def test_gp_comparison_says_why_not(line):
    X, y = line
    with pytest.raises(
        ValueError, match="needs a known noise, and `method` 'deep' or a `likelihood` learns it"
    ):
        AnchoredRegressor(**FIXED, method="deep").fit(X, y).compare_to_gp(X)
    X, y = make_regression(5001, 2, random_state=0)
    big = AnchoredRegressor(n_members=2, epochs=1, prior=1.0, noise_var=1.0).fit(X, y)
    with pytest.raises(
        ValueError, match=r"5,000 training rows, too many for an exact GP\. To compare, fit on"
    ):
        big.compare_to_gp(X[:10])


def test_data_frames_keep_their_names(line):
    X, y = line
    frame = pd.DataFrame(X, columns=["width", "height"])
    models = [
        AnchoredRegressor(**FIXED).fit(frame, pd.Series(y, name="price")),
        AnchoredRegressor(**FIXED).fit(pl.from_pandas(frame), pl.Series("price", y)),
    ]
    plain = AnchoredRegressor(**FIXED).fit(X, y).predict(X)
    for model, data in zip(models, (frame, pl.from_pandas(frame)), strict=True):
        assert list(model.feature_names_in_) == ["width", "height"]
        np.testing.assert_array_equal(model.predict(data), plain)
    with pytest.raises(ValueError, match="feature names should match"):
        models[0].predict(frame.rename(columns={"width": "depth"}))


@pytest.mark.parametrize(
    "labels", [["a", "b", "c"], [True, False], [-1, 5, 9], np.array(["x", "y"], dtype=object)]
)
def test_labels_of_any_type(labels, rng):
    X = rng.normal(size=(60, 2))
    y = np.asarray(labels)[(X[:, 0] > 0).astype(int)]
    model = AnchoredClassifier(**FIXED).fit(X, y)
    assert set(model.predict(X)) <= set(y)
    assert model.score(X, y) > 0.8


def test_classifier_default_is_accurate_and_unsure_far_away():
    X, y = load_iris(return_X_y=True)
    model = AnchoredClassifier(n_members=4, epochs=300, random_state=0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
    directions = np.random.default_rng(0).normal(size=(200, 4))
    far = model.predict_dist(X.mean(axis=0) + 20 * directions)
    assert far.mutual_information.mean() > 3 * model.predict_dist(X).mutual_information.mean()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-12)
    values = model.sample_functions(1, random_state=0)[0](X[:3])
    np.testing.assert_allclose(values.sum(axis=1), 1)


def test_classifier_of_method_rms_knows_less_near_its_rows():
    """Noise in the score widens the members where anchors alone make them agree."""
    X, y = load_iris(return_X_y=True)
    settings = FIXED | {"n_members": 8, "epochs": 200}
    models = [AnchoredClassifier(**settings, method=m).fit(X, y) for m in ("anchored", "rms")]
    anchored, rms = (m.predict_dist(X).mutual_information.mean() for m in models)
    assert rms > 1.5 * anchored
    assert models[1].score(X, y) > 0.9


def test_works_with_scikit_learn_s_tools(line):
    X, y = line
    model = make_pipeline(StandardScaler(), AnchoredRegressor(**FIXED))
    assert np.mean(cross_val_score(model, X, y, cv=2)) > 0.5
    mean, std = model.fit(X, y).predict(X, return_std=True)
    assert mean.shape == std.shape == y.shape
    search = GridSearchCV(AnchoredRegressor(**FIXED), {"activation": ["relu", "erf"]}, cv=2)
    assert search.fit(X, y).best_params_["activation"] in ("relu", "erf")
    assert clone(search.best_estimator_).get_params()["n_members"] == 3


def test_works_with_mapie(line):
    from mapie.regression import SplitConformalRegressor

    X, y = line
    conformal = SplitConformalRegressor(
        AnchoredRegressor(**FIXED), confidence_level=0.8, prefit=False
    )
    conformal.fit(X[:40], y[:40]).conformalize(X[40:], y[40:])
    _, interval = conformal.predict_interval(X)
    assert interval.shape == (60, 2, 1)
    assert np.mean((interval[:, 0, 0] <= y) & (y <= interval[:, 1, 0])) > 0.6


def test_bayesian_optimisation_style_use(line):
    """What a tool that asks for ``return_std`` does: expected improvement on a grid."""
    from scipy.stats import norm

    model = AnchoredRegressor(**FIXED).fit(*line)
    mean, std = model.predict(np.random.default_rng(0).uniform(-2, 2, (50, 2)), return_std=True)
    gain = mean - line[1].max()
    improvement = gain * norm.cdf(gain / std) + std * norm.pdf(gain / std)
    assert np.isfinite(improvement).all()
    assert improvement.max() > 0


def test_verbose_draws_a_bar(line, capfd):
    AnchoredRegressor(**FIXED, verbose=1).fit(*line)
    assert "objective" in capfd.readouterr().err


def test_unfitted_says_so():
    with pytest.raises(NotFittedError):
        AnchoredRegressor().predict([[1.0]])
    with pytest.raises(NotFittedError):
        AnchoredClassifier().sample_functions(1)


def test_short_training_warns(line):
    with pytest.warns(
        ConvergenceWarning, match="Members .* were still improving .* Raise `epochs`"
    ):
        AnchoredRegressor(**FIXED | {"epochs": 2, "learning_rate": 1e-3}).fit(*line)


def test_default_training_does_not_ask_for_longer_training(line, monkeypatch):
    monkeypatch.setattr("anchored.tuning.defaults._FEW_STEPS", 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = AnchoredRegressor(n_members=2, random_state=0).fit(*line)
    late = [status == Status.STEP_LIMIT for status in model.ensemble_.info.status]
    assert any(late)  # though more steps would have lowered the objective


@pytest.mark.parametrize(
    ("given", "may_be_short"),
    [
        ({}, False),
        ({"hidden": (20,)}, True),
        ({"likelihood": StudentT()}, True),
        ({"epochs": 3}, True),
        ({"learning_rate": 0.1}, True),
        ({"max_seconds": 5}, True),
        ({"optimiser": "warmup-cosine"}, True),
        ({"network": MLP((20,))}, True),
    ],
)
def test_only_a_default_schedule_is_known_to_be_long_enough(given, may_be_short):
    model = AnchoredRegressor(**given)
    assert model._may_be_short(model._schedule(200)) is may_be_short


def test_divergence_is_an_error_that_says_what_to_do(line):
    with pytest.raises(EnsembleError, match="Lower `learning_rate`"):
        AnchoredRegressor(**FIXED | {"learning_rate": 1e30}).fit(*line)


def test_dropped_members_are_named(line):
    from tests.core.test_ensembles import Explosive

    settings = FIXED | {"n_members": 12, "random_state": 1}
    model = AnchoredRegressor(**settings, network=Explosive((8,)), noise_var=0.1)
    with pytest.warns(
        DroppedMemberWarning, match=r"Members \[.*\] diverged twice and were dropped"
    ):
        model.fit(*line)
    assert model.ensemble_.n_members < 12


def test_diabetes_by_default_is_calibrated():
    X, y = load_diabetes(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AnchoredRegressor(n_members=4, random_state=0).fit(X[:300], y[:300])
    lower, upper = model.predict_interval(X[300:], 0.9).T
    covered = np.mean((lower <= y[300:]) & (y[300:] <= upper))
    assert abs(covered - 0.9) < 4 * np.sqrt(0.9 * 0.1 / 142)


def test_whole_numbers_are_standardised_unless_they_are_tokens(rng):
    X = rng.integers(20_000, 90_000, size=(80, 2))
    y = X[:, 0] / 1e4 + 0.01 * rng.normal(size=80)
    network = MLP((20,))
    model = AnchoredRegressor(n_members=2, epochs=1500, network=network, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    images = rng.integers(0, 256, size=(20, 6, 6, 1), dtype=np.uint8)
    labels = np.arange(20) % 2
    conv = AnchoredClassifier(**QUICK | {"n_members": 2}, network=ConvNet(((4,),), (8,), 2))
    assert conv.fit(images, labels).predict_proba(images).shape == (20, 2)


@pytest.mark.parametrize("settings", [{"method": "unconstrained"}, {"prior": "whole"}])
def test_noise_is_tuned_with_a_free_kernel(rng, settings):
    """A prior that is given, or does not matter, must not hold the noise's own kernel."""
    X = np.sort(rng.uniform(-1, 1, size=(200, 1)), axis=0)
    y = np.sin(4 * X[:, 0]) + 0.1 * rng.normal(size=200)
    if "prior" in settings:
        settings = {"prior": Prior.for_network(MLP((20,)), X, first_var=200.0)}
    model = AnchoredRegressor(n_members=2, epochs=3000, hidden=(20,), random_state=0, **settings)
    assert 0.5 < model.fit(X, y).noise_var_[0] / 0.01 < 2


def test_rows_of_images_may_come_in_any_order(rng):
    images = rng.normal(size=(60, 4, 4, 1))
    y = images.mean(axis=(1, 2, 3)) + 0.1 * rng.normal(size=60)
    order = np.argsort(y)
    weight = (np.arange(60) > 5).astype(float)
    network = ConvNet(((3,),), (4,), 1)
    one, two = (
        AnchoredRegressor(**QUICK | {"n_members": 2}, network=network)
        .fit(images[i], y[i], sample_weight=weight[i])
        .predict(images[:3])
        for i in (np.arange(60), order)
    )
    np.testing.assert_array_equal(one, two)


def test_sampled_functions_outlive_another_fit(line):
    X, y = line
    model = AnchoredRegressor(**FIXED).fit(X, y)
    function = model.sample_functions(1, random_state=0)[0]
    before = function(X)
    model.fit(100 * X, -5 * y)
    np.testing.assert_array_equal(function(X), before)


def test_a_failed_fit_leaves_the_model_as_it_was(line):
    X, y = line
    model = AnchoredRegressor(**FIXED).fit(X, y)
    before = model.predict(X)
    with pytest.raises(EnsembleError):
        model.set_params(learning_rate=1e30).fit(100 * X, -5 * y)
    np.testing.assert_array_equal(model.predict(X), before)
    fresh = AnchoredRegressor(**FIXED | {"learning_rate": 1e30})
    with pytest.raises(EnsembleError):
        fresh.fit(X, y)
    with pytest.raises(NotFittedError):
        fresh.predict(X)


@pytest.mark.parametrize("kind", [AnchoredRegressor, AnchoredClassifier])
def test_novelty_is_rare_among_rows_like_the_training_rows(kind):
    """One held-out row in a hundred has it, up to the chance of 300 rows; far rows all do.

    The share beyond the third largest of 300 values is a Beta(4, 297), here up to p = 1e-3.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_300, 3))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=len(X))
    y = y if kind is AnchoredRegressor else y > 0
    model = kind(n_members=6, epochs=400, random_state=0).fit(X[:300], y[:300])
    assert np.mean(model.novelty(X[300:]) > 1) < stats.beta.ppf(0.999, 4, 297)
    assert np.mean(model.novelty(X[300:] + 20) > 1) > 0.95
    assert not np.any(kind(n_members=1, epochs=2).fit(X[:40], y[:40]).novelty(X) > 0)
