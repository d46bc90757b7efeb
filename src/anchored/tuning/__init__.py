"""Tuning: the prior and the noise by evidence, and the settings that were found."""

from anchored.tuning.evidence import MAX_ROWS as MAX_ROWS
from anchored.tuning.evidence import Tuned as Tuned
from anchored.tuning.evidence import Twin as Twin
from anchored.tuning.evidence import tune_classification as tune_classification
from anchored.tuning.evidence import tune_regression as tune_regression
from anchored.tuning.settings import Settings as Settings
