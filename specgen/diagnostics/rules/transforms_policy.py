"""SG339 and SG375 to SG379: rules about what the policy writes, as transforms read it: its states, and its actions."""

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

SEVERAL_GIVEN = Rule(
    "SG377",
    "inverse of several keys that is not whole",
    """\
An inverse role with `all` stands for several keys that the environment is given. The policy writes one output in their
place, with `key` and `inverse: true`, whose type is that of an expression of all of them.

```yaml
in: {parts: {all: [left, right], type: "float32[...]", inverse: true}}
out: {joined: {each: parts, type: like(parts)}}
```

```yaml
in: {parts: {all: [left, right], type: "float32[...]", inverse: true}}
out: {joined: {key: joined, inverse: true, type: "like(stack(*parts, axis=-1))"}}
inverse: {parts: "select(joined, nth, axis=-1)"}
```

It is the only inverse role; a class, a mask or `around` is of one key.
""",
    without="The environment would be given one of its actions, and nobody would say the others.",
)

READ_FOR_SEVERAL = Rule(
    "SG378",
    "value of one key that is computed for all",
    """\
What `inverse` assigns to a role of several keys is computed for each of them: there `nth` is the number of the key, from 0,
and the role is that key. A local value is computed once, for all keys; and nothing is drawn.

```yaml
inverse:
  place: 2 * nth
  parts: "select(joined, place, axis=-1)"
```

```yaml
inverse: {parts: "select(joined, 2 * nth, axis=-1)"}
```
""",
    without="All keys would get what is computed for the first.",
)

PARTS_DIFFER = Rule(
    "SG379",
    "actions of different kinds in place of which one is written",
    """\
The policy writes one action in place of several, so these are of one kind: all choices among as many classes, or all numbers.

```yaml
transforms: [{Stack: {in_keys: [], out_keys_inv: [left, right]}}]   # categorical(3)[] and categorical(5)[]
```

Write them one by one, or give the environment choices among as many classes.
""",
    without="Random actions would be choices that one of them does not have.",
)
