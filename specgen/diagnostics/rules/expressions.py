"""SG8xx and SG9xx: expressions, and what is refused for safety."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

TAG_REFUSED = Rule(
    "SG903",
    "YAML tag",
    """
A tag (`!name`, `!!type`) asks the reader of a YAML file to make an object of a kind that the file
chooses. Readers that obey run code of the file's author; specgen reads data only, so no tag is
allowed, harmless ones included.

    doc: !!python/object/apply:os.system ["id"]     # SG903

Write the value itself:

    doc: What this declares.
""",
    without="`yaml.unsafe_load` calls `os.system` for `!!python/object/apply:os.system`.",
)

NOT_SAFE = Rule(
    "SG901",
    "not an allowed function",
    """
Expressions are a small language of their own. They call the listed functions and the functions
that the declaration defines, nothing else: no Python built-in, no import, no attribute of an
object. Schemas may come from strangers, so nothing in one is ever evaluated.

    reward: __import__('os').system('id')     # SG901

Write an expression of declared names and listed functions, or say `python:` and put the code
into a module of your own:

    reward: -(angle ** 2)
""",
    without='A generator that evaluates texts runs `__import__("os").system(…)` of whoever wrote the schema.',
)

BOOL_ASSIGNED = Rule(
    "SG801",
    "bool assigned to a number",
    """
The expression is a truth value and the key holds numbers. Torch would store 0 and 1, which is
rarely what was meant, and hides a comparison that was meant as a condition.

    reward: theta > 0     # SG801, reward is float32

Say what number each case is:

    reward: where(theta > 0, 1.0, 0.0)
""",
    without="torch stores 0 and 1: `reward: theta > 0` trains, on a reward that was meant as a condition.",
)

SYNTAX = Rule(
    "SG802",
    "not an expression",
    """
The text does not follow the grammar of expressions: Python's, without strings, lambdas,
conditional expressions, comprehensions and attributes. Logic is written `and`, `or`, `not`.

    u: clip(a, -2, 2        # SG802, the parenthesis is not closed
    stay: a > 0 & b > 0     # SG802, write `and`

    u: clip(a, -2, 2)
    stay: a > 0 and b > 0
""",
    without="SyntaxError in the generated module, at a line that nobody wrote.",
)

UNDEFINED = Rule(
    "SG803",
    "undefined name",
    """
An expression may read dims, consts, params, keys and the locals that stand above it. The name is
none of these: a misspelling, a name from another declaration, or a local that is defined later.

    next.x: x + thetadot * dt      # SG803, the state is called theta_dot

    next.x: x + theta_dot * dt
""",
    without="NameError at the first step, in generated code.",
)

UNKNOWN_FUNCTION = Rule(
    "SG804",
    "unknown function",
    """
Only the listed functions and the functions that the declaration defines can be called.

    u: clamp(a, -2, 2)     # SG804, it is called clip

    u: clip(a, -2, 2)
""",
    without="NameError at the first step, or a function of torch with another meaning of the same name.",
)

WRONG_ARGUMENTS = Rule(
    "SG805",
    "wrong arguments",
    """
A function was called with too few or too many arguments, with one it does not know, or with one
of the wrong kind (an axis that does not exist, a shape that is not known when specgen builds).

    s: sum(x, axis=2)     # SG805, x has one dimension: axis is -1 or 0

    s: sum(x, axis=0)
""",
    without="TypeError or IndexError of torch at the first step; an axis that counts from the batch "
    "reduces over environments.",
)

WRONG_DTYPE = Rule(
    "SG806",
    "operation not defined for this dtype",
    """
Arithmetic on truth values is refused: torch gives `True + True` 2 and `True - True` an error.
Likewise conditions must be truth values, and indices integers.

    cost: done * 5       # SG806

    cost: where(done, 5.0, 0.0)
""",
    without="torch gives 2 for `True + True`, raises for `True - True`, and takes a float index for an "
    "error of its own.",
)

SHAPE_MISMATCH = Rule(
    "SG807",
    "shapes do not fit",
    """
Shapes are those of one environment. A scalar goes with everything; two shapes with dimensions must
be equal, and `None` in an index makes a dimension of 1 that stretches. Nothing else broadcasts:
a dimension that stretches by accident gives numbers that look right.

    d: a - b               # SG807: a is float32[3], b is float32[3, 4]

    d: a[:, None] - b      # [3, 1] with [3, 4]
""",
    without="`[n, 1]` meets `[n]` and becomes `[n, n]`: the mean of it is a number, and the wrong one.",
)

INDEX_UNPROVEN = Rule(
    "SG808",
    "index not proven in range",
    """
A fixed index must lie in its dimension, and a computed index must be an integer whose values
provably do: outside it, CPU code raises and CUDA code stops the whole process. What a step has computed
(`next.pos`) has the values of its expression, not those of its declared domain.

    cell: grid[pos + 1]                    # SG808, pos + 1 can be 5, grid has 5 rows

    cell: grid[clip(pos + 1, 0, 4)]
""",
    without="torch raises at the first unlucky step on a CPU; on CUDA a device-side assertion ends the "
    "process.",
)

ONE_DRAW = Rule(
    "SG809",
    "one draw, several slots",
    """
A single random draw would fill a whole vector: every slot gets the same number.

    th: uniform(-1, 1)                # SG809, th is float32[4]

    th: uniform(-1, 1, shape=4)       # four draws
""",
    without="Every joint starts at the same angle: the reset covers a line of the state space.",
)

LITERAL_RANGE = Rule(
    "SG810",
    "number outside its dtype",
    """
A number takes the dtype of the tensor that it meets, and this one does not fit: torch would wrap
it around or raise.

    bright: pixels + 300      # SG810, pixels is uint8: 0 to 255

    bright: int32(pixels) + 300
""",
    without="torch wraps or raises by the operation: 300 becomes 44 beside uint8.",
)

DIVISION_BY_ZERO = Rule(
    "SG811",
    "division by zero",
    """
The divisor is zero whatever the values are.

    x: a / (n - 3)       # SG811, n is 3
""",
    without="inf or NaN from the first step, which the optimizer carries into every weight.",
)

TOO_DEEP = Rule(
    "SG812",
    "expression too large",
    """
The expression is nested deeper than a person can read; name its parts in lines of their own.
""",
    without="RecursionError in whatever walks the tree, here or in Python's own compiler.",
)

DRAW_MISPLACED = Rule(
    "SG813",
    "random draw where nothing is drawn",
    """
Random numbers are drawn at a reset and at a step. Observations are functions of the state, maps of transforms and
declared functions are pure, so that they give the same for the same arguments, whenever and however often they are
computed.

    observe:
      observation: x + normal(0, 1)         # SG813

    state:
      noise: float32
    reset:
      noise: normal(0, 1)
    step:
      next.noise: normal(0, 1)
    observe:
      observation: x + noise
""",
    without="Two looks at one state show two observations, and a recorded rollout can't be replayed.",
)

ALWAYS_NAN = Rule(
    "SG814",
    "always NaN",
    """
The values of the operand, as the declared domains bound them, all lie where the function is not defined: the root or
the logarithm of a negative number, the inverse sine of a number beyond 1. The result is NaN at every step.

    observation: sqrt(x - 20)     # SG814, x is in [-10, 10]

    observation: sqrt(20 - x)

If the operand can be larger after all, its declared domain is too small.
""",
    severity="warning",
    without="NaN at every step; the first backward pass puts it into every weight.",
)

NEVER_TRUE = Rule(
    "SG815",
    "comparison that is never true",
    """
As the declared domains bound the values, the comparison can't hold: an environment that ends when `next.x > 20` never
ends if `x` is in [-10, 10].

    terminated: next.x > 20     # SG815, x is in [-10, 10]

    terminated: next.x > 9

If the value can be larger after all, its declared domain is too small.
""",
    severity="warning",
    without="The episode never ends, or the branch is never taken; nothing looks wrong but the learning "
    "curve.",
)

INDEX_NEEDS_DOMAIN = Rule(
    "SG816",
    "index in range only by a domain that may be left",
    """
A domain in a state's spec is assumed before a step, so an index that reads the key counts as proved. But the expression
that assigns the key may leave the domain, and `terminated` and `truncated` don't provably end the episode before the
key is read: then the index is out of range after all. CPU code raises, and CUDA code stops the whole process; neither
takes another element in its place. `observe` is computed of the last state of an episode, too.

    state: {n: "int64 in [0, 5]"}
    step:
      next.n: n + 1             # can be 6
      reward: zeros(6)[n]       # SG816

    state: {n: "int64 in [0, 5]"}
    step:
      next.n: min(n + 1, 5)
      reward: zeros(6)[n]
""",
    severity="warning",
    without="Another entry of the table is read, or torch raises, in the one episode in which the key "
    "leaves its domain.",
)

NEGATIVE_WEIGHT = Rule(
    "SG841",
    "weight or rate that may be negative",
    """
The weights of `categorical` and the rate of `poisson` are proven to be at least 0, as an index is proven to be in
range: what they draw is a whole number, which can't be NaN where the distribution has no meaning. The usual slip is
to pass logits where weights are expected.

    move: categorical(logits)              # SG841, logits can be negative

    move: categorical(softmax(logits))

A state key or a parameter is known not to be negative by its domain: `float32[4] in [0, 1]`, `min: 0`.
""",
    without="Every row of a batch draws a class of other probabilities than were meant, and a negative rate draws 0.",
)

BUILTIN_HIDDEN = Rule(
    "SG842",
    "built-in function hidden by a name of one's own",
    """
Keys, parameters, sizes, constants, functions and intermediate values may be called like a built-in function. In all
sections of the declaration the name is then theirs, and the built-in function can't be called. (Declared functions
see no keys: there it can.)

    step:
      std: std(wind)                  # SG842, `std` is the value that this line assigns
      next.x: x + std

    step:
      spread: std(wind)
      next.x: x + spread
""",
    without="One name would mean two things, and which of them is decided by a parenthesis.",
)
