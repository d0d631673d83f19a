"""SG32x: transforms that step the environment before them."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

AROUND_KINDS = Rule(
    "SG322",
    "`around` that is more than one thing",
    """\
`around` repeats steps, leaves some out or takes some after a reset: one of the three, and nothing besides. What is
computed at each step belongs to a transform of its own.

```yaml
around: {repeat: 4, skip: x > 1}
```

Two transforms do both, one after the other:

```yaml
around: {repeat: 4}
```
""",
    without="Which of the two happens first is anybody's guess: a step that is left out four times, or four steps of "
    "which some are left out.",
)

NOTHING_FOLDED = Rule(
    "SG323",
    "`acc` or `nth` where nothing is repeated",
    """\
`acc.x` is what `fold` has combined of the repetitions before, `nth` the number of the repetition. Outside of them there
is neither.

```yaml
around: {repeat: 4, until: acc.reward > 10}
```

```yaml
around: {repeat: 4, until: next.reward > 10, fold: {reward: acc.reward + next.reward}}
```
""",
    without="NameError at the first step.",
)

REWARD_LOST = Rule(
    "SG324",
    "reward of the last repetition only",
    """\
Several steps become one, whose entries are those of the last repetition, the reward included. What the steps before
were rewarded with is lost, unless `fold` adds it up.

```yaml
around: {repeat: 4}
```

```yaml
in: {reward: {each: env.reward, type: "float[...]"}}
around: {repeat: 4, fold: {reward: acc.reward + next.reward}}
```
""",
    severity="warning",
    without="An agent is trained on a quarter of its reward: a goal that is reached in the second of four frames and left "
    "again counts nothing.",
)

NOT_STATIC = Rule(
    "SG325",
    "collected over a number of repetitions that may change",
    """\
What is collected has one value for each repetition, so the number of repetitions is part of its shape: a parameter in it
says `static: true`.

```yaml
params: {count: {type: int, min: 1}}
around: {repeat: count, collect: {rewards: next.reward}}
```

```yaml
params: {count: {type: int, min: 1, static: true}}
around: {repeat: count, collect: {rewards: next.reward}}
```
""",
    without="The spec says 4 values, and after `transform.count = 8` each step gives 8.",
)

AT_MOST = Rule(
    "SG326",
    "number of steps after a reset without a bound",
    """\
Environments that compute take as many steps after a reset as there may be, in all rows, and keep of each row as many as
it is to have. So there has to be a number that `reset_steps` never exceeds.

```yaml
around: {reset_steps: noops, action: random}
```

```yaml
around: {reset_steps: noops, at_most: noops, action: random}
```
""",
    without="How often the loop runs would depend on data: a row draws other numbers because another one steps longer.",
)

SKIP_READS_NEXT = Rule(
    "SG327",
    "`skip` that reads what the step gives",
    """\
Whether a row steps is decided before the step, by what is there then: bare names.

```yaml
around: {skip: next.x > 1}
```

```yaml
around: {skip: x > 1}
```
""",
    without="A step would have to be undone: a simulator can't.",
)

COUNTED_REPETITIONS = Rule(
    "SG328",
    "counted or summed before steps are repeated",
    """\
Transforms before one that repeats steps see each repetition, those after it one step. A counter or a sum before it
counts repetitions, which can be meant; then say so.

```yaml
transforms: [{StepCounter: {max_steps: 200}}, {FrameSkipTransform: {frame_skip: 4}}]
```

Either put it behind:

```yaml
transforms: [{FrameSkipTransform: {frame_skip: 4}}, {StepCounter: {max_steps: 200}}]
```

or allow it in this chain: `allow: [SG328]`.
""",
    severity="warning",
    without="Episodes are truncated after 50 steps of the agent where 200 were meant.",
)

COLLECTED_KEYS = Rule(
    "SG393",
    "collected keys that are computed of",
    """\
An output that follows an `all:` role is one for each of its keys, which may be of any dtypes and dimensions: each is
collected as it is.

```yaml
in: {seen: {all: env.observation}}
out: {stacked: {each: seen, name: "stacked_{}"}}
around: {repeat: 4, collect: {stacked: 2 * next.seen}}
```

```yaml
around: {repeat: 4, collect: {stacked: next.seen}}
```
""",
    without="An expression of values that have nothing in common.",
)
