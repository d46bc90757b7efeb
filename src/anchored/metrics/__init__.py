"""Scores of predictions against what was observed: arrays in, numbers out.

The first argument is a `Predictive`, a pair ``(mean, std)`` of arrays (a normal distribution), or
an array of draws [draw, batch] or [draw, batch, out]. For classes it is a `Predictive` or an array
of probabilities. Each docstring gives the unit, what is good, and what chance alone gives.
"""

from anchored.metrics.classes import Reliability as Reliability
from anchored.metrics.classes import accuracy as accuracy
from anchored.metrics.classes import brier as brier
from anchored.metrics.classes import confusion as confusion
from anchored.metrics.classes import expected_calibration_error as expected_calibration_error
from anchored.metrics.classes import log_loss as log_loss
from anchored.metrics.classes import reliability as reliability
from anchored.metrics.comparison import GPComparison as GPComparison
from anchored.metrics.comparison import kl as kl
from anchored.metrics.comparison import wasserstein as wasserstein
from anchored.metrics.novelty import RiskCoverage as RiskCoverage
from anchored.metrics.novelty import aupr as aupr
from anchored.metrics.novelty import aurc as aurc
from anchored.metrics.novelty import auroc as auroc
from anchored.metrics.novelty import novelty_scores as novelty_scores
from anchored.metrics.novelty import risk_coverage as risk_coverage
from anchored.metrics.regression import CalibrationCurve as CalibrationCurve
from anchored.metrics.regression import calibration_curve as calibration_curve
from anchored.metrics.regression import calibration_error as calibration_error
from anchored.metrics.regression import coverage as coverage
from anchored.metrics.regression import crps as crps
from anchored.metrics.regression import interval_score as interval_score
from anchored.metrics.regression import nll as nll
from anchored.metrics.regression import pit as pit
from anchored.metrics.regression import rmse as rmse
from anchored.metrics.regression import sharpness as sharpness
