"""SG146, SG147 and SG843: the functions of a file, and what they are called with."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

FUNCTION_ARGUMENT = Rule(
    "SG146",
    "what a function of a file can't take",
    """\
A function of a file takes tensors by their type for one row: a dtype, or `float` for any float, and all dimensions, as
numbers or as names. It is called with any number of dimensions in front of these, so that `...` has nothing to say; and
it needs one tensor at least, which tells the rows.

```yaml
functions:
  mean_square:
    args: {x: "float[...]"}
    returns: mean(square(x), -1)
```

Name the dimensions that it computes with:

```yaml
functions:
  mean_square:
    args: {x: "float[n]"}
    returns: mean(square(x), -1)
```
""",
    without="A function that means another axis for each caller, or a result on a device that nothing tells.",
)

FUNCTION_RESULT = Rule(
    "SG147",
    "the result is not what a function declares",
    """\
A function says the type of its result, and its expression has another one.

```yaml
functions:
  total:
    args: {x: "float[n]"}
    returns: sum(x, -1)
    type: float[n]
```

Correct one of the two, or leave the type out: it is that of the expression then.

```yaml
functions:
  total:
    args: {x: "float[n]"}
    returns: sum(x, -1)
    type: float
```
""",
    without="Whoever reads the declaration counts on a shape that the function does not return.",
)

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
