"""SG146 and SG147: the functions of a file."""

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
