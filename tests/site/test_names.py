"""Every public name is documented, shown in use and part of the reference."""

import inspect

from anchored_site import api, docstrings, names


def test_every_public_name_is_documented():
    assert names.undocumented() == []


def test_names_of_anchored_and_metrics_have_an_example():
    assert names.without_example() == []


def test_every_public_name_is_on_its_page():
    pages = api.pages()
    found = names.everything()
    assert len(found) > 150
    for public in found:
        assert f":: {public.dotted}\n" in pages[public.module], public.dotted
        if public.kind == "class":
            for method in names.methods(public.value):
                assert f":: {public.dotted}.{method}\n" in pages[public.module], method


def test_a_name_without_docstring_is_noticed(monkeypatch):
    def bare():
        pass

    class Half:
        """Documented, but not its method."""

        def method(self):
            pass

    Half.method.__module__ = "anchored.typing"
    made = [names.Public("anchored", "bare", bare), names.Public("anchored", "Half", Half)]
    monkeypatch.setattr(names, "everything", lambda: made)
    assert names.undocumented() == ["anchored.bare", "anchored.Half.method"]


def test_methods_of_protocols_borrow_their_words():
    from anchored import MLP, typing

    assert MLP.apply.__doc__ is None
    assert names.described(MLP, "apply") == inspect.getdoc(typing.Network.apply)


def test_docstrings_become_restructured_text():
    lines = [
        "The sum of |a| and b_, of `c`.",
        "",
        "    a * b",
        "",
        "Parameters",
        "----------",
        "x, y : numbers,",
        "    of any size.",
        "",
        ">>> 1 * 1",
        "1",
    ]
    assert docstrings.converted(lines) == [
        r"The sum of \|a\| and b\_, of `c`.",
        "",
        ".. code-block:: text",
        "",
        "       a * b",
        "",
        "",
        ".. rubric:: Parameters",
        "",
        "- **x, y**: numbers,",
        "  of any size.",
        "",
        ">>> 1 * 1",
        "1",
        "",
    ]
