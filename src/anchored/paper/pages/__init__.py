"""Pages made from records."""

from anchored.paper.pages.benchmarks import benchmark_page as benchmark_page
from anchored.paper.pages.coverage import coverage_page as coverage_page
from anchored.paper.pages.real import real_page as real_page
from anchored.paper.pages.reproduction import reproduction_page as reproduction_page
from anchored.paper.pages.rl import rl_page as rl_page
from anchored.paper.pages.unfamiliar import unfamiliar_page as unfamiliar_page
