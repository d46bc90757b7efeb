"""Pages made from results records; knows the records' schemas and no experiment."""

from anchored.pages._benchmarks import benchmark_page as benchmark_page
from anchored.pages._own_tables import own_tables_page as own_tables_page
from anchored.pages._records import Results as Results
from anchored.pages._records import load_records as load_records
from anchored.pages._reproduction import reproduction_page as reproduction_page
from anchored.pages._unfamiliar import unfamiliar_page as unfamiliar_page
