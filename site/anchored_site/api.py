"""Pages of the API reference, one for each public module."""

from anchored_site import names

GROUPS = {  # of `anchored` itself; what is in none comes last
    "Estimators": ("AnchoredRegressor", "AnchoredClassifier", "TableEncoder"),
    "Predictions, files and reports": ("Predictive", "load", "report"),
    "Networks": ("MLP", "ConvNet", "TextCNN"),
    "Likelihoods": (
        "Gaussian",
        "HeteroskedasticGaussian",
        "StudentT",
        "Bernoulli",
        "Categorical",
        "Ordinal",
        "Poisson",
        "NegativeBinomial",
        "ZeroInflatedPoisson",
        "Censored",
        "Mixture",
        "Quantile",
    ),
    "Ensembles and their training": (
        "Prior",
        "Data",
        "Schedule",
        "fit_ensemble",
        "Ensemble",
        "init_ensemble",
        "EnsembleState",
        "advance",
        "objective",
    ),
}


def pages() -> dict[str, str]:
    """Text of each page by its name."""
    made = {}
    for module, source in names.modules().items():
        found = names.public(module, source)
        about = f"```{{eval-rst}}\n.. automodule:: {module}\n   :no-members:\n```\n"
        made[module] = f"# `{module}`\n\n{about}\n{_body(module, found)}"
    return made


def _body(module: str, found: list[names.Public]) -> str:
    if module != "anchored":
        return _table(found) + "\n".join(_entry(public) for public in found)
    by_name = {public.name: public for public in found}
    parts = []
    grouped = {name for group in GROUPS.values() for name in group}
    groups = GROUPS | {"More": tuple(name for name in by_name if name not in grouped)}
    for title, members in groups.items():
        mine = [by_name[name] for name in members if name in by_name]
        if mine:
            parts.append(f"## {title}\n\n{_table(mine)}" + "\n".join(map(_entry, mine)))
    return "\n".join(parts)


def _table(found: list[names.Public]) -> str:
    """Names with their first lines."""
    rows = [f"   * - :py:obj:`{p.name} <{p.dotted}>`\n     - {_first_line(p)}\n" for p in found]
    head = ".. list-table::\n   :widths: 30 70\n   :class: names\n\n"
    return f"```{{eval-rst}}\n{head}{''.join(rows)}```\n\n" if rows else ""


def _first_line(public: names.Public) -> str:
    from anchored_site.docstrings import escaped

    words = (public.value.__doc__ or "").strip().split("\n\n")[0]
    return escaped(" ".join(words.split()))


def _entry(public: names.Public) -> str:
    directive = f".. auto{public.kind}:: {public.dotted}"
    lines = [directive]
    if public.kind == "class":
        for name in names.methods(public.value):
            kind = "property" if names.is_property(public.value, name) else "method"
            lines += ["", f"   .. auto{kind}:: {public.dotted}.{name}"]
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```\n"
