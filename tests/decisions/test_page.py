"""The measured sections of docs/decisions.md are those of the records."""

import pytest
from benchmarks import decisions_page
from benchmarks.sections import with_section


@pytest.mark.parametrize("made", decisions_page.SECTIONS, ids=lambda f: f.__name__)
def test_a_section_is_that_of_its_record(made):
    text = decisions_page.PAGE.read_text(encoding="utf-8")
    assert with_section(text, made()) == text
