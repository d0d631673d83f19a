"""SG35x: legal environments, transforms and chains that rarely do what was meant."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

NEVER_STEPPED = Rule(
    "SG351",
    "state that never changes",
    """\
A state key that `step` does not assign keeps what `reset` gave it. Here `reset` gives the same value to every
episode, so the key is a constant. Most often `next.` and an assignment are missing, or a local value took its place.

```yaml
reset: {x: "uniform(-1, 1)", v: 0.0}
step:
  speed: v + dt * action[0]       # next.v was meant
  next.x: x + dt * speed
```

Step it:

```yaml
step:
  next.v: v + dt * action[0]
  next.x: x + dt * next.v
```

A value that is always the same is a parameter or a constant; one that is drawn for each episode gets no warning.
""",
    severity="warning",
    without="The key stays at its first value for ever: a velocity of 0, a counter that never counts, and dynamics "
    "of lower order than those that were meant.",
)

TIME_LIMIT_TERMINATES = Rule(
    "SG352",
    "time limit in `terminated`",
    """\
`terminated` says that the task is over and nothing of worth follows, so that values are not bootstrapped there. A
time limit says no such thing: the episode is only cut off. And where no observation, reward or dynamics depends on
the clock, the policy can't know that the end is near.

```yaml
step:
  next.t: t + 1
  terminated: abs(next.x) > 2 or next.t >= 200
```

Cut off with `truncated`, or leave the limit to a `StepCounter` in a chain:

```yaml
step:
  next.t: t + 1
  terminated: abs(next.x) > 2
  truncated: next.t >= 200
```

Where the horizon is part of the task, let an observation read the clock; then there is no warning.
""",
    severity="warning",
    without="Every value estimator takes the return behind the limit for 0: states that are good for ever look as bad "
    "as a fall, the later in the episode the worse.",
)

OLD_STATE_TERMINATES = Rule(
    "SG353",
    "done flag of the state before the step",
    """\
In `step` a bare state key is its value before the step. A flag that depends on nothing else could have been raised
one step earlier: the episode goes on for one step more, from a state in which it was over, and gets a reward for it.

```yaml
step:
  next.x: x + dt * action[0]
  terminated: abs(x) > 2
```

Ask the new state:

```yaml
step:
  next.x: x + dt * action[0]
  terminated: abs(next.x) > 2
```
""",
    severity="warning",
    without="Episodes end one step late: the policy acts once more from beyond the end, and that transition is trained on.",
)

SAME_FLAG = Rule(
    "SG354",
    "`terminated` and `truncated` are one flag",
    """\
One of the two flags is true wherever the other is. They say different things: `terminated` that the task is over,
`truncated` that the episode was cut off; `done` is their union and made for you.

```yaml
step:
  terminated: abs(next.x) > 2
  truncated: terminated
```

Assign what is meant; a flag that is left out is false:

```yaml
step:
  terminated: abs(next.x) > 2
```
""",
    severity="warning",
    without="Ends and time limits can't be told apart: logs count every fall as a time limit, and where `terminated` "
    "copies `truncated`, no estimator bootstraps behind a limit.",
)

OLD_REWARD = Rule(
    "SG355",
    "reward or flag of the step before",
    """\
In the `step` of a transform a bare name is the value before the step. A reward or a done flag is what a step
returns: before the first step there is none, and later it is that of the step before. What comes out is one step
late, and the last reward of each episode, often the only one, is never read.

```yaml
step:
  next.total: total + reward
```

Read what this step returned:

```yaml
step:
  next.total: total + next.reward
```
""",
    severity="warning",
    without="Returns lack the last reward of every episode: with a sparse reward they are always 0.",
)

SCALE_OF_ZERO = Rule(
    "SG356",
    "scale of 0",
    """\
A value is multiplied or divided by a parameter that the chain sets to 0. Multiplied, nothing is left of it; divided,
it is infinite or not a number.

```yaml
transforms: [{ObservationNorm: {in_keys: [observation], loc: 0.0, scale: [1.0, 0.0]}}]
```

```yaml
transforms: [{ObservationNorm: {in_keys: [observation], loc: 0.0, scale: [1.0, 0.5]}}]
```
""",
    severity="warning",
    without="The policy sees a constant, or NaN from the first step on, which the optimizer carries into every weight.",
)

NO_KEYS = Rule(
    "SG357",
    "transform that matches no key",
    """\
None of the keys at this position is what the transform works on: it does nothing. A cast often stands behind one
that did the same, or in front of the transform that it was meant for.

```yaml
transforms: [DoubleToFloat, RewardSum]      # every key is float32 already
```

Leave it out, or give it the keys that are meant:

```yaml
transforms: [RewardSum]
```
""",
    severity="warning",
    without="The transform is constructed and skipped; what it was meant to convert, scale or count stays as it is.",
)

MASK_LOST = Rule(
    "SG358",
    "mask that random actions keep to no longer",
    """\
An environment, or a transform, says which observation masks an action, and random actions keep to it. Behind a transform
that computes this action of another one, drops the mask or gives it another shape, nothing says what is allowed.

```yaml
chains:
  Bare: {env: GridWorld, transforms: [{ExcludeTransform: {in_keys: [agents.action_mask]}}]}
```

Keep the mask, or let a transform with `masks` behind this one say what is allowed of the new action. Where any action will
do, `allow: [SG358]`.
""",
    severity="warning",
    without="Random rollouts of illegal actions, which the environment punishes or ignores.",
)

ACTION_BEYOND_BOUNDS = Rule(
    "SG359",
    "action beyond the environment's bounds",
    """\
An inverse gives the environment, where the policy writes the least or the largest that its spec allows, an action that the
environment's spec does not allow.

```yaml
transforms:
  Triple:
    in: {u: {each: [action], type: "float[...]", inverse: true}}
    out: {v: {each: u, type: "float32[...] in [-1, 1]"}}
    inverse: {u: 3 * v}                       # SG359 where the environment takes [-2, 2]
```

Scale between the environment's own bounds, `low(u) + (v + 1) / 2 * (high(u) - low(u))` with `type: "float[...] in bounded"`, or
`clip` what is given. Where the environment copes with it, `allow: [SG359]`.
""",
    severity="warning",
    without="Random rollouts that leave the action space: simulators clip, fail, or go on with what nobody tested.",
)

LATE_LIMIT = Rule(
    "SG360",
    "time limit that never ends an episode",
    """\
A transform truncates episodes after more steps than they can last: Gymnasium's environment has a shorter limit of its own,
or another transform of the chain does.

```yaml
envs:
  Pendulum: {gymnasium: {id: Pendulum-v1}}                                # 200 steps
chains:
  Long: {env: Pendulum, transforms: [{StepCounter: {max_steps: 500}}]}    # SG360
```

Leave it out, or let the first one be longer: `gymnasium: {id: Pendulum-v1, kwargs: {max_episode_steps: 500}}`. Where it is a
safeguard, `allow: [SG360]`.
""",
    severity="warning",
    without="Episodes of 200 steps where 500 were meant, and returns that can't be compared.",
)
