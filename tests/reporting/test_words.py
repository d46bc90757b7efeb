"""Numbers and names as readers see them."""

import numpy as np

from anchored.reporting.words import column, level, number, percent, plain


def test_numbers_read_well():
    shown = [number(v) for v in (0, 1236, 0.0123, -5.678e9, np.nan)]
    assert shown == ["0", "1,240", "0.0123", "\N{MINUS SIGN}5.68e9", "none"]
    spaced = [
        percent(v).replace("\N{NO-BREAK SPACE}", " ") for v in (0, 0.907, 0.996, 1, 2.5, 1e-5)
    ]
    assert spaced == ["0 %", "91 %", "99.6 %", "100 %", "250 %", "under 0.1 %"]
    assert level(0.975).replace("\N{NO-BREAK SPACE}", " ") == "97.5 %"
    assert column([1.0, 20.0, 300.0]) == ["1", "20", "300"]
    assert column([-0.00001, 12.346]) == ["0.00", "12.35"]


def test_any_value_is_one_short_line():
    assert plain("a\n b\tc" + "d" * 300, 10) == "a b cdddd…"
    assert plain("a\x00\u202eb\ud800") == "a\N{REPLACEMENT CHARACTER}" + (
        "\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    )
