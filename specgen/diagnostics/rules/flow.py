"""SG3xx: chains: keys, order, data flow."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

KEY_COLLISION = Rule(
    "SG301",
    "key written twice",
    """\
Two transforms write the same key, or a transform writes a key that the environment already has and that it
does not transform. One would silently replace the other.

```yaml
transforms: [{StepCounter: {max_steps: 200}}, StepCounter]
```

Drop one of them, or name its output:

```yaml
transforms: [{StepCounter: {max_steps: 200}}, {StepCounter: {step_count_key: total_steps}}]
```
""",
    without="The second `StepCounter` writes over the first one's `step_count`; both count wrong, and the "
    "limits with them.",
)

ORDER = Rule(
    "SG311",
    "accumulated before it is transformed",
    """\
A transform sums or counts a key that a later transform changes, so what it accumulates is the unchanged
key: the episode's return in raw reward, say, while the loss sees scaled rewards. That can be meant; then
say so.

```yaml
transforms: [RewardSum, {RewardScaling: {loc: 0.0, scale: 0.1}}]
```

For the return of the environment, which logs and evaluations are of, allow it in this chain:

```yaml
transforms: [RewardSum, {RewardScaling: {loc: 0.0, scale: 0.1}}]
allow: [SG311]
```

For the sum of what is trained on, put it behind:

```yaml
transforms: [{RewardScaling: {loc: 0.0, scale: 0.1}}, RewardSum]
```
""",
    severity="warning",
    without="`episode_reward` is logged as -46.07 where what is trained on sums to -4.61, and two runs "
    "can't be compared.",
)

WRONG_INPUT = Rule(
    "SG313",
    "a transform gets a type that it can't take",
    """\
The key that a transform is given has another dtype or other dimensions than its declaration accepts, or has not
finite bounds on both sides where that says `in bounded`. Often a transform that converts is missing in front of
it, or comes too late.

```yaml
transforms: [{DoubleToFloat: {in_keys: [observation]}}]     # observation is float32 already
```

Leave it out, or give it the key that is float64.
""",
    without="torch raises in the middle of the first reset, in a line of the library that names neither "
    "key nor transform.",
)

NO_SUCH_KEY = Rule(
    "SG331",
    "no such key at this position",
    """\
A transform reads a key that neither the environment nor a transform before it writes. In multi-agent
environments rewards and observations are often nested in a group.

```yaml
transforms: [{RewardSum: {in_keys: [reward]}}]              # the environment writes agents.reward
```

```yaml
transforms: [{RewardSum: {in_keys: [agents.reward]}}]
```
""",
    without="KeyError at the first reset or step; BenchMARL users met it as `reward` where the key is "
    "`agents.reward`.",
)

KEYS_NEEDED = Rule(
    "SG332",
    "in_keys are needed",
    """\
This transform has no keys of its own choice: which of the environment's keys it works on has to be said.

```yaml
transforms: [{ObservationNorm: {loc: 0.0, scale: 2.0}}]
```

```yaml
transforms: [{ObservationNorm: {in_keys: [observation], loc: 0.0, scale: 2.0}}]
```
""",
    without="The transform runs over no key at all and does nothing.",
)

KEY_COUNT = Rule(
    "SG333",
    "out_keys don't match in_keys",
    """\
`out_keys` names one key for each key that the transform writes, in the order of `in_keys`.

```yaml
transforms: [{RewardSum: {in_keys: [reward], out_keys: [a, b]}}]
```

```yaml
transforms: [{RewardSum: {in_keys: [reward], out_keys: [total]}}]
```
""",
    without="`zip` stops at the shorter list: the keys at the end are never written.",
)

PAIRED_KEYS = Rule(
    "SG308",
    "keys that go together differ in number",
    """\
Two roles of a transform go together, one key of each at a time, so there are as many of one as of the other.

```yaml
transforms: [{Difference: {in_keys: [position, angle], goal_keys: [goal]}}]
```

```yaml
transforms: [{Difference: {in_keys: [position, angle], goal_keys: [goal, goal_angle]}}]
```
""",
    without="`zip` stops at the shorter list: the keys at the end are never read.",
)

CHAIN_ENTRY = Rule(
    "SG334",
    "an entry of `transforms` that names no single transform",
    """\
An entry is the name of a transform, or a mapping from one name to its arguments.

```yaml
transforms: [{StepCounter: {max_steps: 200}, RewardSum: {}}]
```

```yaml
transforms: [{StepCounter: {max_steps: 200}}, RewardSum]
```
""",
    without="Only one of the two transforms is built, whichever comes first.",
)

KEY_PLACE = Rule(
    "SG361",
    "no place for a key",
    """\
What a transform writes needs a place in the tensordict and a name in Python. Under the name of a group of agents
everything has a dimension for them, and generated code calls the value of `x` after a step `next_x`.

```yaml
transforms:
  - ObservationNorm: {loc: 0, scale: 2, in_keys: [agents.seen, position], out_keys: [agents.normed, agents.position]}
```

Choose another key:

```yaml
transforms:
  - ObservationNorm: {loc: 0, scale: 2, in_keys: [agents.seen, position], out_keys: [agents.normed, position_normed]}
```
""",
    without="tensordict refuses the value at the first step, as its shape is not that of the group.",
)

FLAG_PLACE = Rule(
    "SG362",
    "no place for a done flag",
    """\
A transform's `terminated` and `truncated` stand beside the done flags of the environment, of their shape, under
whatever name. They can only be raised, and raise `done` with them; `done` itself follows from them.

```yaml
transforms: [{StepCounter: {max_steps: 200, truncated_key: done}}]
```

```yaml
transforms: [{StepCounter: {max_steps: 200, truncated_key: out_of_time}}]
```
""",
    without="a flag that no done set knows ends no episode, and one that is mapped can end an episode that goes on.",
)

NO_REWARD_YET = Rule(
    "SG363",
    "reward where there is none",
    """\
A step gives a reward; a reset gives none. A transform that reads `x` in `reset`, or the bare `x` in `step` (its value
before the step), can be applied to observations, not to rewards. Nor can a reward be carried: carry an output with
`hidden: true`, and let the reward be that.

```yaml
transforms:
  Smooth:
    in: {x: {each: env.reward, type: "float[...]"}}
    out: {y: {each: x, name: "smooth_{}", type: like(x)}}
    carry: [y]
    reset: {y: x}
    step: {next.y: 0.9 * y + 0.1 * next.x}
```

```yaml
    reset: {y: zeros_like(y)}
    step: {next.y: 0.9 * y + 0.1 * next.x}
```
""",
    without="the first reset ends in a KeyError, as no reward is in the tensordict.",
)
