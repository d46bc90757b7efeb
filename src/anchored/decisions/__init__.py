"""Decisions that use error bars: optimise, ask for labels, abstain."""

from anchored.decisions.optimise import Optimiser as Optimiser
from anchored.decisions.optimise import Told as Told
from anchored.decisions.space import Category as Category
from anchored.decisions.space import Float as Float
from anchored.decisions.space import Integer as Integer
from anchored.decisions.space import Space as Space
