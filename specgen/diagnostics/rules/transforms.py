"""SG34x: transforms: roles, conditions, flags and what a phase can know."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

UNKNOWN_GROUP = Rule(
    "SG341",
    "unknown group of keys",
    """\
`env.observation`, `env.reward` and `env.done` are what an environment returns, `env.action` and `env.state`
what it is given (roles with `inverse: true`). Any other text is a key.

```yaml
in: {reward: {each: env.rewards, type: "float[...]"}}
```

```yaml
in: {reward: {each: env.reward, type: "float[...]"}}
```
""",
    without="The text is taken for a key that no environment has: KeyError, or a transform that never "
    "matches.",
)

WRONG_CONDITION = Rule(
    "SG342",
    "condition that can't be decided at construction",
    """\
`when` says that an output exists only where an optional parameter was given, or an optional role has a key. It is
decided once, when the transform is constructed or put into an environment (in a chain: when it is built), so it can't
depend on data.

```yaml
params: {max_steps: {type: int, optional: true}}
out: {truncated: {each: done, name: truncated, type: "bool[...]", when: max_steps > 0}}
```

```yaml
out: {truncated: {each: done, name: truncated, type: "bool[...]", when: given(max_steps)}}
```
""",
    without="Keys would come and go from step to step, and no spec could say which there are.",
)

MAY_BE_ABSENT = Rule(
    "SG343",
    "optional parameter or key read where it may be absent",
    """\
An optional parameter has no value unless it was given, and an optional role none where nobody has its key. Only outputs
with `when: given(…)` of it may read it, and branches of `where(given(…), …)`.
An output with a `when` is there for those that have the same condition, or more.

```yaml
params: {max_steps: {type: int, optional: true}}
step: {next.left: max_steps - step_count}
```

```yaml
out: {left: {each: done, name: left, type: "int64[...]", when: given(max_steps)}}
```
""",
    without="`next.step_count >= None` raises TypeError at the first step of whoever leaves the parameter "
    "out.",
)

WRONG_SIGNATURE = Rule(
    "SG344",
    "signature that does not list the constructor's parameters",
    """\
`signature` orders the parameters of the generated constructor: `params`, `in_keys` and `out_keys` (with `_inv`
for inverse roles), and the `keyword` of each output. Each stands in it once.

```yaml
params: {max_steps: {type: int, optional: true}, update_done: true}
signature: [max_steps]
```

```yaml
signature: [max_steps, update_done]
```
""",
    without="Callers pass a scale where the location was meant: positional arguments go to other parameters.",
)

FLAG_FALLS = Rule(
    "SG345",
    "done flag that may fall",
    """\
An episode that the environment has ended stays ended: a transform may raise `terminated` and `truncated`, never
lower them. So the flag is or-ed with what it was.

```yaml
step: {next.truncated: next.step_count >= max_steps}
```

```yaml
step: {next.truncated: next.truncated or next.step_count >= max_steps}
```
""",
    without="An episode that the environment ended goes on: rollouts step a state behind the end.",
)

NO_VALUE = Rule(
    "SG346",
    "value that nobody has",
    """\
A bare name in `step` is the value before the step. An output has one only if it is carried in the tensordict
from step to step; at a reset there is nothing before.

```yaml
step: {next.total: total + next.reward}
```

```yaml
carry: [total]
reset: {total: zeros_like(total)}
step: {next.total: total + next.reward}
```
""",
    without="KeyError at the first step, or the value of the step before where a fresh one was meant.",
)

NOTHING_BEGINS_ANEW = Rule(
    "SG374",
    "keyword of reset masks where a reset begins nothing",
    """\
`reset_keyword` names the keyword of the constructor by which users say which masks (`_reset`) begin what is carried
anew. A transform without `reset` begins nothing.

```yaml
reset_keyword: reset_key
map: {scaled: 2 * x}
```

```yaml
map: {scaled: 2 * x}
```
""",
    without="A keyword of the class that does nothing.",
)

STATE_INVERTED = Rule(
    "SG368",
    "inverse of a state that a chain has no use for",
    """\
Where a transform writes or drops a state of the environment, a chain keeps the environment's own beside what is shown,
below `_carry`, and steps from that: an inverse of it is not needed, and not computed. Where none does, the state that
is shown is the environment's own, and there is nothing that an inverse could be computed of.

```yaml
transforms: [{RenameTransform: {in_keys: [], out_keys: [], in_keys_inv: [x], out_keys_inv: [y]}}]
```

```yaml
transforms: [{RenameTransform: {in_keys: [x], out_keys: [y], in_keys_inv: [x], out_keys_inv: [y]}}]
```
""",
    without="KeyError at the first step: no reset returns what the environment's state would be computed of.",
)
