"""SG318 to SG321: what transforms learn."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

BATCH_MISPLACED = Rule(
    "SG318",
    "statistic of the batch where there is none",
    """\
`batch_count()`, `batch_sum(x)` and `batch_mean(x)` are taken over the rows of a batch that are new. Only `update` sees
a batch; everywhere else an expression is about one row. Keep what you need in a buffer. `batch_rank(x)`, the position of
a row among those that are new, is known under `reset`, too, of a transform that counts them and says `offline: false`:
recorded data are replayed at all times at once.

```yaml
map: {y: x - batch_mean(x)}
```

```yaml
buffers: {loc: {each: x, type: "float64[...]", init: 0.0}}
update: {next.loc: 0.99 * loc + 0.01 * batch_mean(x)}
map: {y: float32(x - loc)}
```
""",
    without="A row would be changed by those that happen to be beside it.",
)

BUFFER_ASSIGNED = Rule(
    "SG319",
    "buffer that nothing learns, or that is declared wrongly",
    """\
Each buffer is assigned once, under `update` as `next.` and its name. It begins with `init`: a number, a truth value or
the name of a parameter; it has one of the role's keys each (`each`), or is one for all.

```yaml
buffers: {count: {type: int64, init: 0}}
update: {loc: batch_mean(x)}
```

```yaml
buffers: {count: {type: int64, init: 0}}
update: {next.count: count + int64(batch_count())}
```
""",
    without="The buffer keeps its first value for ever, and what reads it is normalised by that.",
)

COUNTED_IN_FLOAT32 = Rule(
    "SG320",
    "statistic that counts or sums in float32",
    """\
A float32 holds whole numbers up to 2**24: a count stops there, and a sum loses what is added to it. Statistics are
float64 or int64.

```yaml
buffers: {count: {type: float32, init: 0.0}}
```

```yaml
buffers: {count: {type: float64, init: 0.0}}
```
""",
    severity="warning",
    without="After 16.8 million steps the count stands still, and means drift.",
)

OPTIONAL_BUFFER = Rule(
    "SG321",
    "optional buffer that is learned from the first step on",
    """\
A buffer without a value (`optional: true`) can be read only behind `init_stats` or `learn`, which `learns: when_called`
provides. A transform that learns always has a value from the beginning.

```yaml
buffers: {mean: {each: x, type: like(x), init: loc, optional: true}}
```

```yaml
learns: when_called
buffers: {mean: {each: x, type: like(x), init: loc, optional: true}}
```
""",
    without="The first reset would read a mean that nobody has.",
)
