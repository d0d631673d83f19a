"""SG38x: pictures of environments."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

NO_COLOR = Rule(
    "SG381",
    "not a colour",
    """\
A colour is a name of CSS in small letters, or six hexadecimal digits behind `#`, in quotes, as a `#` begins a comment.

```yaml
shapes:
  ball: {kind: circle, at: [x, y], radius: 0.1, color: lightbleu}
```

```yaml
shapes:
  ball: {kind: circle, at: [x, y], radius: 0.1, color: lightblue}
```
""",
    without="The first picture raises, behind the training that it was to show.",
)

COUNT = Rule(
    "SG382",
    "numbers of a shape that do not go together",
    """\
The numbers of a shape are single ones, or have one dimension: then the shape is drawn once for each of its elements,
and those that are single are the same for all. Two different dimensions say two different numbers of shapes. The
coordinates of polylines and polygons have a dimension of points besides, behind the other.

```yaml
shapes:
  hunters: {kind: circle, at: ["hunter.position[:, 0]", "hare.position[:, 1]"], radius: 0.1}
```

```yaml
shapes:
  hunters: {kind: circle, at: ["hunter.position[:, 0]", "hunter.position[:, 1]"], radius: 0.1}
```
""",
    without="Shapes are drawn where one has the x of another, or the first picture raises.",
)

RANGE = Rule(
    "SG383",
    "picture out of range",
    """\
Sizes and widths are in pixels, from 1 to 4096, and a view has an extent: its left edge is not its right one. The
upper edge may be below the lower one: then the picture is upside down, as rows of a grid are counted.

```yaml
render:
  size: [0, 400]
  view: {x: [-1, 1], y: [0, 0]}
```

```yaml
render:
  size: [600, 400]
  view: {x: [-1, 1], y: [0, 1]}
```
""",
    without="The picture has no pixels, fills the memory, or shows nothing.",
)

PLACEHOLDERS = Rule(
    "SG384",
    "text with other values than it has places for",
    """\
Each `{}` in the text of a label is one of its `values`, in order.

```yaml
shapes:
  speed: {kind: label, at: [0, 0], text: "{} m/s"}
```

```yaml
shapes:
  speed: {kind: label, at: [0, 0], text: "{} m/s", values: [v]}
```
""",
    without="The label shows braces, or leaves out what it was to show.",
)
