"""NumPy's stand-ins beside SciPy's functions."""

import numpy as np
import pytest
from scipy import special

from anchored.prediction import special as _special


@pytest.mark.parametrize(
    ("coverage", "error"),
    # Of the table of 16,385: h^2 / 8 = 5e-10 times the relative curvature, which grows with the
    # tails; beyond, 1 - coverage itself has only so many digits.
    [
        *((1e-6, 1e-8), (0.1, 1e-8), (0.49, 1e-8), (0.5, 1e-8), (0.9, 1e-8)),
        *((0.99, 1e-7), (0.999, 1e-7), (0.99999, 1e-6), (1 - 1e-9, 1e-6)),
    ],
)
def test_half_widths_are_those_of_student_t(coverage, error):
    dof = np.geomspace(1, 9.9e5, 3_001)
    exact = special.stdtrit(dof, (1 + coverage) / 2)
    np.testing.assert_allclose(_special.half_width(coverage, dof), exact, rtol=error)
    normal = special.ndtri((1 + coverage) / 2)
    for many in (1e6, np.inf):
        assert _special.half_width(coverage, many) == pytest.approx(normal, rel=error)


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-8), (np.float32, 5e-7)])
def test_erf(dtype, error):
    z = np.concatenate([np.linspace(-8, 8, 100_001), [0.0, -0.0, 1e30, -1e30]]).astype(dtype)
    found = _special.erf(z)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, special.erf(z.astype(np.float64)), rtol=0, atol=error)
