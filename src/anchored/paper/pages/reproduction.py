"""The page of the paper's figures."""

from collections.abc import Iterable, Mapping
from typing import Any

from anchored.paper.prose import rendered


def reproduction_page(records: Iterable[Mapping[str, Any]], pictures: str) -> str:
    """Markdown of all records; ``pictures`` is the path from the page to the folder of pictures."""
    return rendered("reproduction.md.j2", records=records, pictures=pictures)
