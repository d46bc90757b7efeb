"""The schedule that estimators train with if nothing is set."""

from anchored.tuning import default_schedule


def test_with_little_noise_only_several_layers_need_a_slow_rate():
    straight, one, two = (default_schedule(1_000, n, noise_var=1e-3) for n in (0, 1, 2))
    assert straight == one
    assert two.learning_rate < one.learning_rate
