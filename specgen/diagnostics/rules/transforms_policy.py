"""SG339, SG375 and SG376: rules about what the policy writes, as transforms read it: its states, and its actions."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

POLICY_STATE = Rule(
    "SG339",
    "state of the policy that a transform assigns",
    """\
What is `written_by: policy` is assigned at a reset and by the policy, which writes it under `next`. A step of the
environment leaves it alone, and so do the transforms behind it.

```yaml
out: {hidden: {key: hidden, type: "float32[8]", written_by: policy}}
reset: {hidden: "zeros((8,))"}
step: {next.hidden: 0.5 * hidden}
```

Leave `next.hidden` to the policy, and the transforms behind it other keys.
""",
    without="the recurrent state that the policy computed is lost at each step.",
)

ACTION_READ_ELSEWHERE = Rule(
    "SG375",
    "action that is not read by a step",
    """\
A role with `written_by: policy` is an action as the policy wrote it. It is there when a step begins, so `step` reads it, by
its bare name; a reset, a map or an update has none, and what the environment is given is a role with `inverse: true`.

```yaml
in: {a: {each: env.action, type: "float32[n]", written_by: policy}}
map: {last: a}
```

```yaml
reset: {last: zeros_like(last)}
step: {next.last: a}
```
""",
    without="The class would look for an action where none is: after a reset.",
)

ACTION_CHANGED = Rule(
    "SG376",
    "action that is read in front of what changes it",
    """\
A transform reads the action as the policy wrote it, and one behind it gives the environment another: the policy writes what
that one takes, whose shape and bounds the first does not know.

```yaml
transforms: [LastAction, ActionScaling]
```

```yaml
transforms: [ActionScaling, LastAction]
```
""",
    without="An observation of the last action would have the shape and the bounds of another one.",
)
