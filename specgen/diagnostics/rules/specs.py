"""SG2xx: specs: types, dtypes, shapes, domains."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

EMPTY_DOMAIN = Rule(
    "SG201",
    "empty domain",
    """
The lower bound is above the upper one, or infinite on the wrong side, so no value is allowed.
TorchRL samples one anyway.

    action: float32[1] in [1, -1]      # SG201

    action: float32[1] in [-1, 1]
""",
    without="TorchRL takes `Bounded(low=1, high=-1)`, samples 1 from it, and finds 0 outside.",
)

NOT_A_TYPE = Rule(
    "SG202",
    "not a type",
    """
A type is a dtype or a kind, its arguments, its shape and its domain:
`float32[3] in [-1, 1]`, `categorical(4)`, `onehot(4)`, `multi_categorical(3, 2)`,
`multi_onehot(3, 2)`, `binary[8]`, `bool[1]`, `uint8[84, 84, 3]`. Patterns for transforms:
`number[...]`, `any[...]`, `float32[3, H, W]`, `like(x)`.

    obs: flaot32[3]      # SG202

    obs: float32[3]
""",
    without="KeyError of a dtype table, or a spec of the default dtype.",
)

BOUND_OUTSIDE_DTYPE = Rule(
    "SG203",
    "bound outside the dtype",
    """
The dtype cannot hold the bound: TorchRL would wrap -1 to 255 for uint8.

    pixels: uint8[84, 84] in [-1, 255]      # SG203

    pixels: uint8[84, 84] in [0, 255]
""",
    without="torch wraps -1 to 255 for uint8, so that the lower bound lies above every pixel.",
)

BOUND_SHAPE = Rule(
    "SG204",
    "bounds do not fit the shape",
    """
A bound is one number for all elements, or a list with the shape of the type.

    obs: float32[3] in [[-1, -1], [1, 1]]             # SG204, two numbers for three elements

    obs: float32[3] in [[-1, -1, -8], [1, 1, 8]]
""",
    without="RuntimeError of `expand` when the spec is made, or bounds that broadcast along another "
    "dimension than was meant.",
)

NARROWED = Rule(
    "SG205",
    "expression wider than its key",
    """
The expression is computed in a wider dtype than the key holds; rollouts would keep the wide one
until something compares it with the spec, or lose digits where nobody looks.

    observation: x * dt               # SG205, dt is a float64 param and observation is float32

    observation: float32(x * dt)      # or declare dt as float32
""",
    without="Rollouts keep float64, double their memory and slow down; `check_env_specs` or the first "
    "stack of two rollouts notices.",
)

NO_TENSOR = Rule(
    "SG206",
    "type that is not a spec",
    """
A key and a named spec say what a tensor looks like: its dtype and every one of its dimensions.
Patterns (`float[...]`, `number`, `float32[3, H, W]`, `like(x)`) say what a transform can be applied
to, and `text` is no tensor.

    observation: float32[...]      # SG206

    observation: float32[3]
""",
    without="A spec whose shape is not known can't be sampled or stacked: it fails at the first `rand`.",
)

OUTSIDE_DOMAIN = Rule(
    "SG207",
    "expression outside its domain",
    """
The key is declared with a domain and the expression provably leaves it.

    th: uniform(-10, 10)      # SG207, th is float32 in [-8, 8]

    th: uniform(-8, 8)
""",
    without="The first values outside the spec fail `is_in` in somebody's assertion, or are clipped where "
    "nobody looks.",
)

CLASSES_OUTSIDE_DTYPE = Rule(
    "SG208",
    "more classes than the dtype can number",
    """
Classes are numbered from 0, and the dtype must hold the last one. TorchRL lets the numbers wrap around.

    action: categorical(300, dtype=uint8)      # SG208, uint8 ends at 255

    action: categorical(300, dtype=int16)
""",
    without="Class 299 is stored as 43 in uint8: two actions are one.",
)

BAD_SHAPE = Rule(
    "SG209",
    "not a shape",
    """
Dimensions are positive whole numbers, names of `dims:` or sums, differences, products and whole
quotients of them, and so are numbers of classes. One value has at most 2**40 elements.

    obs: float32[0]        # SG209
    obs: float32[n / 2]    # SG209, write n // 2

    obs: float32[n // 2]
""",
    without="torch raises for negative sizes, and makes tensors without elements for 0, whose mean is NaN.",
)
