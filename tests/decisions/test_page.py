"""The measured sections of docs/decisions.md and docs/updates.md are those of the records."""

import pytest
from benchmarks import decisions_page, updates_page
from benchmarks.sections import with_section

SECTIONS = [(page, made) for page in (decisions_page, updates_page) for made in page.SECTIONS]


@pytest.mark.parametrize(("page", "made"), SECTIONS, ids=lambda part: part.__name__)
def test_a_section_is_that_of_its_record(page, made):
    text = page.PAGE.read_text(encoding="utf-8")
    assert with_section(text, made()) == text
