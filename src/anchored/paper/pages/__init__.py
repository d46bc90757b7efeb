"""Pages made from results records; knows the records' schemas and no experiment."""

from anchored.paper.pages._benchmarks import benchmark_page as benchmark_page
from anchored.paper.pages._own_tables import own_tables_page as own_tables_page
from anchored.paper.pages._records import Results as Results
from anchored.paper.pages._records import load_records as load_records
from anchored.paper.pages._reproduction import reproduction_page as reproduction_page
from anchored.paper.pages._unfamiliar import unfamiliar_page as unfamiliar_page
