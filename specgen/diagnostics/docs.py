"""The page of diagnostics in the documentation, made from the rules."""

from __future__ import annotations

from typing import Final

from specgen.diagnostics.diagnostic import Rule
from specgen.diagnostics.rules import ALL_RULES

_SECTIONS: Final = (
    ("SG0", "YAML files, the imports between them, and the project"),
    ("SG1", "The shape of declarations: fields, names, what nothing reads"),
    ("SG2", "Specs: types, dtypes, shapes, domains"),
    ("SG3", "Environments, chains and transforms: keys, order, data flow"),
    ("SG4", "Losses, target networks, value estimators"),
    ("SG5", "Language models and KL; pipelines"),
    ("SG6", "Devices, batch sizes, done flags, groups of agents"),
    ("SG7", "Gymnasium's environments"),
    ("SG8", "Expressions"),
    ("SG9", "What is refused for safety"),
)

_INTRODUCTION: Final = """\
<!-- Written by `specgen.diagnostics.docs`; the tests compare this page with the rules. -->
# Diagnostics

Every mistake has a code, a place and, where there is one, a remedy:

```
error[SG803]: undefined name `thetadot`
  --> schemas/pendulum.yaml:14:14
   |
14 |     next.th: th + thetadot * dt
   |                   ^^^^^^^^
   = help: did you mean 'thdot'?
```

All mistakes of all files are reported in one run; one cause gives one message. Errors are certain: what can't be
decided is let pass. A build with errors writes nothing. Warnings are about what is legal and rarely meant. Where it is
meant, the environment, transform, chain, loss, model or pipeline says so, `allow: [SG311]`; `specgen check --strict` and
`specgen build --strict` fail on those that are left.

`specgen explain SG803` prints what a code means, an example that triggers it and the example mended. Below stands what
would happen if nobody checked: at the build, at run time or in training.
"""


def diagnostics_markdown() -> str:
    """The text of `docs/diagnostics.md`."""
    parts = [_INTRODUCTION]
    for prefix, heading in _SECTIONS:
        rules = [rule for rule in ALL_RULES.values() if rule.code.startswith(prefix)]
        if rules:
            parts.append(f"\n## {heading}\n\n| | | without it |\n|---|---|---|\n")
            parts += [_row(rule) for rule in rules]
    return "".join(parts)


def _row(rule: Rule) -> str:
    kind = " (warning)" if rule.severity == "warning" else ""
    title, without = (text.replace("|", "\\|") for text in (rule.title, rule.without))
    return f"| {rule.code} | {title}{kind} | {without} |\n"
