"""Tuning: the prior and the noise by evidence, and whole settings by search."""

from anchored.exact.evidence import CLASS_ROWS as CLASS_ROWS
from anchored.exact.evidence import FIRST_VAR_RANGE as FIRST_VAR_RANGE
from anchored.exact.evidence import MAX_ROWS as MAX_ROWS
from anchored.exact.evidence import Tuned as Tuned
from anchored.exact.evidence import Twin as Twin
from anchored.exact.evidence import tune_classification as tune_classification
from anchored.exact.evidence import tune_regression as tune_regression
from anchored.tuning.defaults import FEW_ROWS as FEW_ROWS
from anchored.tuning.defaults import MANY_ROWS as MANY_ROWS
from anchored.tuning.defaults import OWN_UNIT_ROWS as OWN_UNIT_ROWS
from anchored.tuning.defaults import TOLERANCE as TOLERANCE
from anchored.tuning.defaults import WITH_ALL_ROWS as WITH_ALL_ROWS
from anchored.tuning.defaults import default_schedule as default_schedule
from anchored.tuning.search import SAMPLERS as SAMPLERS
from anchored.tuning.search import SearchResult as SearchResult
from anchored.tuning.search import Space as Space
from anchored.tuning.search import Trial as Trial
from anchored.tuning.search import tune as tune
from anchored.tuning.settings import Settings as Settings
