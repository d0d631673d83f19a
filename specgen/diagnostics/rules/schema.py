"""SG1xx: the shape of declarations: unknown fields, kinds and names."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

UNKNOWN_FIELD = Rule(
    "SG101",
    "unknown field",
    """\
A declaration has a field that the language does not know. It is most often a slip of the pen; were it
ignored, the default would stand in silently for what you meant.

```yaml
state: {x: {kind: bounded, dtpye: float32, low: -1, high: 1}}
```

Write the field as the language spells it:

```yaml
state: {x: {kind: bounded, dtype: float32, low: -1, high: 1}}
```
""",
    without="The field is dropped and its default stands in: `dtpye: float64` gives a float32 key.",
)

MISSING_FIELD = Rule(
    "SG102",
    "missing field",
    """\
A declaration lacks a field that has no default.

```yaml
chains:
  Train: {transforms: [StepCounter]}
```

Say it:

```yaml
chains:
  Train: {env: CartPole, transforms: [StepCounter]}
```
""",
    without="KeyError or None somewhere in the generator, or a class without the method that nobody "
    "declared.",
)

UNKNOWN_DECLARATION = Rule(
    "SG103",
    "unknown declaration",
    """\
An environment, transform, loss or spec is named that neither this file nor its imports declare.

```yaml
chains:
  Train: {env: CartPole, transforms: [RewardScalling]}
```

Correct the name, or `import` the file that declares it:

```yaml
import: [../transforms/reward_scaling]
chains:
  Train: {env: CartPole, transforms: [{RewardScaling: {loc: 0.0, scale: 0.1}}]}
```
""",
    without="KeyError where the name is looked up; in TorchRL, an AttributeError at the import of the "
    "training script.",
)

WRONG_TYPE = Rule(
    "SG104",
    "wrong kind of value",
    """\
A field holds a value of another kind than it takes: text for a number, a list for a mapping. Values are
never converted, because YAML's own idea of a value (`1e-4` is text, `yes` is text) surprises often enough.

```yaml
dims: {n: three}
```

```yaml
dims: {n: 3}
```
""",
    without="A text is iterated, a list is multiplied, and the mistake comes out as another one later.",
)

NAME_REFUSED = Rule(
    "SG105",
    "name that can't be used",
    """\
A name becomes a Python identifier in generated code and shares one flat namespace with the language's own
words. Python's keywords, the dtypes and `next`, `now`, `acc` are taken, and so is what generated code reads itself:
what it imports (`Tensor`, `partial`), Python's functions that it calls (`super`, `min`, `abs`), for classes all of
Python's own names. Names are letters, digits and `_`, start with a letter, and have at most 100 characters; only keys
have dots, between the parts of a nested key.

```yaml
state: {lambda: float32}
```

```yaml
state: {lmbda: float32}
```
""",
    without="The generated module is a SyntaxError, or hides a name that its own code calls.",
)

NAME_TAKEN = Rule(
    "SG106",
    "name declared twice",
    """\
Within one declaration every name means one thing: dims, consts, params, state, locals and keys share a
namespace, so that a reader never asks which `x` an expression reads.

```yaml
params: {length: 1.0}
step:
  length: x + 1
```

```yaml
params: {length: 1.0}
step:
  reach: x + 1
```
""",
    without="The later name hides the earlier one: an expression reads the parameter where the state was "
    "meant.",
)

NOT_AVAILABLE = Rule(
    "SG107",
    "not available yet",
    """\
The language reserves a place for this, but this version of specgen can't generate code for it yet. It is
refused rather than ignored. Leave it out, or write this part in Python by subclassing the generated class.
""",
    without="What was declared would be ignored: a normalisation that never updates, a mask of samples that count all the same.",
)

PARAM_OUT_OF_RANGE = Rule(
    "SG108",
    "value outside the declared range",
    """\
A parameter's value (or default) lies outside the range that its declaration gives.

```yaml
params: {decay: {default: 1.5, min: 0, max: 1}}
```

```yaml
params: {decay: {default: 0.99, min: 0, max: 1}}
```
""",
    without="`gamma: 1.5` is accepted by TorchRL: returns grow without bound until the loss is infinite.",
)

MISSING_ASSIGNMENT = Rule(
    "SG109",
    "a declared key is never assigned",
    """\
Every state key needs a value at reset, every observation a line under `observe`, every reward a line under
`step`: otherwise the generated environment would return memory that nobody wrote.

```yaml
state: {x: float32, v: float32}
reset: {x: uniform(-1, 1)}
```

```yaml
state: {x: float32, v: float32}
reset: {x: uniform(-1, 1), v: 0.0}
```
""",
    without="`KeyError` at the first reset or step, or memory that nobody wrote in the first observation.",
)

WRONG_TARGET = Rule(
    "SG110",
    "this can't be assigned here",
    """\
`reset` assigns state keys, `step` assigns `next.` state keys, rewards, `terminated` and `truncated`,
`observe` assigns observations; any other plain name is a local value. Parameters, constants and the values
at time t are read-only.

```yaml
step:
  x: x + v * dt
```

```yaml
step:
  next.x: x + v * dt
```
""",
    without="The assignment goes nowhere: a state key that is set bare keeps its old value, and a "
    "parameter stays what it was.",
)

UNREAD = Rule(
    "SG112",
    "value that nothing reads",
    """\
A section assigns something that is neither a declared key nor read by another expression. It would have no
effect: most often it is a declared key, misspelt. A misspelt `terminated` would leave an environment that never
ends.

```yaml
step:
  next.x: x + action[0]
  reward: -abs(next.x)
  terminatd: abs(next.x) > 5
```

```yaml
step:
  next.x: x + action[0]
  reward: -abs(next.x)
  terminated: abs(next.x) > 5
```

An intermediate value that is not needed for now can be turned into a comment.
""",
    without="A misspelt `terminatd: …` is computed and thrown away, and the environment never ends.",
)

PARAM_SOURCE = Rule(
    "SG111",
    "parameter with two sources",
    """\
A parameter of an environment has its value from its default or from a draw at each reset, not from both.
Whoever makes the environment can pass a value in place of either.

```yaml
params:
  mass: {default: 1.0, draw: "uniform(0.5, 2.0)"}
```

```yaml
params:
  mass: {draw: "uniform(0.5, 2.0)"}
```
""",
    without="One of the two is ignored, and which one only the generated code knows.",
)

CALL_CYCLE = Rule(
    "SG145",
    "functions that call each other in a circle",
    """\
Functions may call each other, in whatever order they are declared, but none may come back to itself: an expression
is computed once for all environments of a batch, so there is no condition that could end the circle.

```yaml
functions:
  even: {args: {k: int64}, returns: "where(k == 0, 1, odd(k - 1))"}
  odd: {args: {k: int64}, returns: "where(k == 0, 0, even(k - 1))"}
```

```yaml
functions:
  even: {args: {k: int64}, returns: "1 - k % 2"}
  odd: {args: {k: int64}, returns: "k % 2"}
```
""",
    without="`where` computes both of its sides, so the first call ends in Python's RecursionError.",
)
