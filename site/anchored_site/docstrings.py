"""Docstrings as reStructuredText.

The project's docstrings have numpydoc's sections, whose items read ``name : what it is``, and
indented formulas. Sections become lists, formulas literal blocks, and signs that mean something to
reStructuredText are escaped.
"""

import re

from anchored_site import names

SECTIONS = ("Parameters", "Attributes", "Returns", "Raises", "Yields", "Examples", "Example")
_CODE = re.compile(r"(``.*?``|`[^`]*`)", re.DOTALL)


def escaped(text: str) -> str:
    """Text with stars, bars and trailing underscores taken literally, outside backticks."""
    parts = _CODE.split(text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([*|])", r"\\\1", parts[i])
        parts[i] = re.sub(r"(\w)_(?=\W|$)", r"\1\\_", parts[i])
    return "".join(parts)


def converted(lines: list[str]) -> list[str]:
    """The lines of a docstring as reStructuredText."""
    made: list[str] = []
    i = 0
    while i < len(lines):
        if _is_section(lines, i):
            title = lines[i].strip()
            i += 2
            end = i
            while end < len(lines) and not _is_section(lines, end):
                end += 1
            made += ["", f".. rubric:: {title}", ""]
            body = lines[i:end]
            made += plain(body) if title.startswith("Example") else items(body)
            i = end
        else:
            end = i + 1
            while end < len(lines) and not _is_section(lines, end):
                end += 1
            made += plain(lines[i:end])
            i = end
    return made


def _is_section(lines: list[str], i: int) -> bool:
    return (
        lines[i].strip() in SECTIONS
        and i + 1 < len(lines)
        and bool(re.fullmatch(r"-{3,}", lines[i + 1].strip()))
    )


def items(lines: list[str]) -> list[str]:
    """``name : text`` with indented lines below, as a list."""
    made: list[str] = []
    for i, line in enumerate(lines):
        if line.startswith(">>>"):
            return [*made, "", *plain(lines[i:])]
        named = re.match(r"^([\w*][\w*, .]*?) : (.*)$", line)
        if named:
            what = re.sub(r"[*`]", "", named[1])
            made.append(f"- **{what}**: {escaped(named[2])}")
        elif line.strip() and made and line.startswith(" "):
            made.append("  " + escaped(line.strip()))
        elif line.strip():
            made += ["", escaped(line)]
    return [*made, ""]


def plain(lines: list[str]) -> list[str]:
    """Paragraphs as they are, indented blocks as formulas, doctests untouched."""
    made: list[str] = []
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        rows = block.split("\n")
        first = next((row for row in rows if row.strip()), "")
        if first.startswith(" ") and first.lstrip()[:3] != ">>>":
            made += [".. code-block:: text", "", *("   " + row for row in rows), ""]
        elif first.lstrip().startswith((">>>", "- ", "* ", "1. ", ".. ")):
            text = rows if first.lstrip().startswith((">>>", "..")) else map(_item, rows)
            made += [*text, ""]
        else:
            made += [*escaped(block).split("\n"), ""]
    return made


def _item(row: str) -> str:
    lead = re.match(r"^(\s*(?:[-*]|\d+\.) )?", row).group()  # type: ignore[union-attr]
    return lead + escaped(row[len(lead) :])


def process(app, what, name, value, options, lines: list[str]) -> None:
    if what in ("method", "property") and not "".join(lines).strip():
        owner, _, method = name.rpartition(".")
        module, _, cls = owner.rpartition(".")
        found = getattr(names.modules().get(module), cls, None)
        lines[:] = ((names.described(found, method) if found else "") or "").split("\n")
    lines[:] = converted(lines)


def resolve(app, env, node, contnode):
    """A name without its module, if exactly one public name ends like that."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target:
        return None
    domain = env.get_domain("py")
    ends = [name for name in domain.objects if name == target or name.endswith(f".{target}")]
    ends = [name for name in ends if domain.objects[name].objtype not in ("attribute",)]
    if len(ends) > 1:
        ends = [name for name in ends if name == f"anchored.{target}"]
    if len(ends) != 1:
        return None
    from sphinx.util.nodes import make_refnode

    found = domain.objects[ends[0]]
    return make_refnode(
        app.builder, node["refdoc"], found.docname, found.node_id, contnode, ends[0]
    )


def setup(app):
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", process)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
