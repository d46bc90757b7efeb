"""NumPy's stand-ins beside SciPy's functions."""

import numpy as np
import pytest
from scipy import special

from anchored.prediction import special as _special


@pytest.mark.parametrize("score", [1e-6, 0.1, 0.67, 0.68, 1.6, 3.0, -0.3, -2.0, 5.0, -8.0])
def test_quantiles_are_those_of_student_t(score):
    """Far out the polynomial in 1 / dof has to bend more."""
    dof = np.geomspace(1, 9.9e5, 3_001)
    exact = np.copysign(special.stdtrit(dof, special.ndtr(-abs(score))), score)
    error = 1e-9 if abs(score) < 4 else 1e-6
    np.testing.assert_allclose(_special.quantile(score, dof), exact, rtol=error)
    np.testing.assert_array_equal(_special.quantile(score, np.array([1e6, np.inf])), score)
    assert _special.quantile(0.0, dof).tolist() == [0.0] * 3_001


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-8), (np.float32, 5e-7)])
def test_erf(dtype, error):
    z = np.concatenate([np.linspace(-8, 8, 100_001), [0.0, -0.0, 1e30, -1e30]]).astype(dtype)
    found = _special.erf(z)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, special.erf(z.astype(np.float64)), rtol=0, atol=error)
