"""Formulas as MathML, which browsers draw themselves: no script and no font is loaded."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def visit_math(self, node: nodes.math) -> None:
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_display(self, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
