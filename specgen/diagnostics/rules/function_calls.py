"""SG843: what functions of files are called with."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

ARGUMENT_DOMAIN = Rule(
    "SG843",
    "an argument outside its domain",
    """\
A function says which values an argument has, and a call does not prove that it has them. In the function they are
taken for granted: a square root, a logarithm or an index may stand on them.

```yaml
functions:
  entropy_of:
    args: {p: "float in [0.001, 0.999]"}
    returns: -(p * log(p) + (1 - p) * log(1 - p))
envs:
  Coin:
    state: {x: float32}
    step: {next.x: entropy_of(x)}
```

Give it values that are inside:

```yaml
    step: {next.x: "entropy_of(clip(x, 0.001, 0.999))"}
```
""",
    without="NaN from a logarithm of 0, far from the call that passed it.",
)
