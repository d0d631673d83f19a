"""SG83x: expressions that are legal and rarely what was meant."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

ONE_NOISE = Rule(
    "SG831",
    "one draw added to a vector",
    """\
A draw without `shape=` is one number. Added to a vector, it moves all elements by the same amount: the noise of
several joints, agents or sensors is one noise.

```yaml
step:
  next.pos: pos + normal(0, 0.1)              # pos: float32[2]
```

Draw one for each element:

```yaml
step:
  next.pos: pos + normal(0, 0.1, shape=(2,))
```
""",
    severity="warning",
    without="Broadcasting adds the same number to every element: noise along the diagonal only, which a policy learns "
    "to cancel.",
)

WHOLE_NUMBERS_ONLY = Rule(
    "SG832",
    "parameter that takes whole numbers only",
    """\
Without a `type`, a parameter has that of its default, and a default without a point is an `int`. This one is read
among floating-point numbers only, and its constructor would refuse 9.81.

```yaml
params: {gravity: 10}
```

Write a float, or say that whole numbers are meant (`type: int`):

```yaml
params: {gravity: 10.0}
```
""",
    severity="warning",
    without="The environment works until someone sweeps the parameter: the constructor refuses every value that is "
    "not a whole number.",
)
