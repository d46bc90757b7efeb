"""The page of tables that nothing was tuned to."""

from typing import Any

from anchored.paper.pages._markdown import table

_TOP = """# Tables nobody tuned to

Made from a record by `python -m benchmarks.own_tables`; do not edit.

Each table went through `anchored fit TABLE --target COL` with no other option. Its {level}
intervals were then checked on rows the command had never seen: 4,000 fresh rows of the
made-up tables, and for the bundled one the rows that five seeds set aside. Chance alone moves
the share of 4,000 rows by 0.5 points, of 445 by 1.4. Seconds are those of the whole command,
start and report included, on a machine of two cores.

"""


def own_tables_page(record: dict[str, Any]) -> str:
    """Markdown from the record of `benchmarks.own_tables`."""
    rows = [
        [
            entry["table"],
            f"{entry['rows']:,}",
            str(entry["columns"]),
            f"{entry['coverage']:.1%}",
            f"{entry['r2']:.2f}",
            f"{entry['seconds']:.0f}",
            entry["about"],
        ]
        for entry in record["tables"]
    ]
    header = ["table", "rows", "columns", "covered", "R2", "seconds", "what it is"]
    return _TOP.format(level=f"{record['nominal']:.0%}") + "\n".join(table(header, rows)) + "\n"
