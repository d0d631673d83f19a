"""SG30x to SG34x, SG392: several roles, outputs whose type follows, static parameters and dropped keys."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

DROPPED_KEY = Rule(
    "SG302",
    "key that an earlier transform dropped",
    """\
A transform reads a key that a transform before it took away: `drops`, or a new name, leaves nothing under the old one.

```yaml
transforms: [{ExcludeTransform: {keys: [position]}}, {RewardSum: {in_keys: [position]}}]
```

```yaml
transforms: [{RewardSum: {in_keys: [position]}}, {ExcludeTransform: {keys: [position]}}]
```
""",
    without="KeyError at the first reset.",
)

DROPPED_FLAG = Rule(
    "SG303",
    "key that can't be dropped",
    """\
Resets and rollouts read `done`, `terminated` and `truncated`, so these stay; and what the environment is given can't be
taken from it.

```yaml
in: {done: {each: env.done, type: "bool[...]"}}
drops: [done]
```

Leave them.
""",
    without="no rollout knows where an episode ends, and none is ever reset.",
)

NO_REWARD_LEFT = Rule(
    "SG304",
    "chain without a reward",
    """\
Every reward of the environment is dropped, and none is written in its place. Losses and `rollout` of most algorithms
read one.

```yaml
transforms: [{ExcludeTransform: {keys: [reward]}}]
```

Keep a reward, or say that it is meant:

```yaml
transforms: [{ExcludeTransform: {keys: [reward]}}]
allow: [SG304]
```
""",
    severity="warning",
    without="the first loss raises KeyError for `reward`.",
)

NOT_OF_RECORDED_DATA = Rule(
    "SG364",
    "role of recorded data where there are none",
    """\
A role with `recorded: true` stands for keys that users name, and that only data have: in an environment it stands for none.
So it has no keys of its own, is nothing that the environment is given, and is read by `map` only.

```yaml
in: {taken: {each: [action], recorded: true}}
```

```yaml
in: {taken: {each: [], recorded: true}}
map: {shown: "flatten(taken, first_dim, last_dim)"}
```
""",
    without="the first reset of an environment looks for a key that only data have.",
)

MASKS_OF_SEVERAL = Rule(
    "SG365",
    "masks and actions that don't go together",
    """\
An action has the mask of its place: of `each` roles the first mask is of the first action, and a mask with `key:` is that of
all. Masks that are read together, or several for one action, say of none what is allowed.

```yaml
in:
  mask: {each: [], type: "bool[...]"}
  u: {key: action, type: "any[...]", inverse: true}
masks: {u: mask}
```

```yaml
in:
  mask: {each: [], type: "bool[...]"}
  u: {each: [action], type: "any[...]", inverse: true}
masks: {u: mask}
```
""",
    without="random actions of one group keep to the mask of another.",
)

OPTIONAL_NEEDED = Rule(
    "SG366",
    "optional role that something needs",
    """\
Without the key of an optional role the outputs that read it do not exist. What the environment is given, the shape of a
draw, the mask of an action, and roles that are found by way of another one's key, can't be done without.

```yaml
in:
  goal: {key: goal, type: "float32[n]", optional: true}
  reached: {key: reached, beside: goal, type: "bool[]"}
```

```yaml
in:
  goal: {key: goal, type: "float32[n]", optional: true}
  reached: {key: reached, type: "bool[]", optional: true}
```
""",
    without="KeyError at the first reset of an environment without the key.",
)

WRITTEN_LATER = Rule(
    "SG367",
    "optional key that is written too late",
    """\
A transform does without an optional key that is not there at its place, and one behind it writes that key.

```yaml
transforms: [GoalReward, {RenameTransform: {in_keys: [target], out_keys: [goal]}}]
```

```yaml
transforms: [{RenameTransform: {in_keys: [target], out_keys: [goal]}}, GoalReward]
```

Where it is meant, `allow: [SG367]`.
""",
    severity="warning",
    without="the reward never knows of a goal, and nothing says so.",
)

ALL_ROLE = Rule(
    "SG306",
    "role of several keys read as one",
    """\
A role with `all:` stands for several keys at once, as many as there are. `*xs` puts them into `concat`, `stack`, `min`,
`max` or `sum`; there is no value that the bare name could stand for.

```yaml
in: {xs: {all: env.observation, type: "number[...]"}}
map: {y: xs}
```

```yaml
map: {y: "concat(*xs, axis=-1)"}
```
""",
    without="the transform works for one key and raises for two.",
)

TWO_DRIVERS = Rule(
    "SG307",
    "two roles that everything is repeated for",
    """\
With `each:` everything is done for one key after another. Of two such roles nobody knows which key of one goes with
which of the other: say that they go together, `with:`, one to one in their order.

```yaml
in: {x: {each: [observation]}, y: {each: [goal]}}
```

```yaml
in: {x: {each: [observation]}, y: {each: [goal], with: x}}
```
""",
    without="`zip` stops at the shorter list, or pairs an observation with another one's goal.",
)

SIZES_DIFFER = Rule(
    "SG309",
    "named size that is two numbers",
    """\
A name in a pattern is one size in a repetition: what the roles of one repetition stand for must agree in it.

```yaml
in: {image: {each: [pixels], type: "any[C, H, W]"}, depth: {key: depth, type: "any[1, H, W]"}}
```

`H` is 84 for `pixels` and 64 for `depth`: resize one of them in front, or call the sizes differently.
""",
    without="torch raises at the first reset, or broadcasts one image over the other.",
)

UNDECLARED_TYPE = Rule(
    "SG314",
    "type that does not follow from what is computed",
    """\
An output without `type` has the type of what `map`, or else `reset`, computes. That is known only where the expression
does not read the output itself, and where it is no bare number.

```yaml
out: {total: {each: reward, name: "episode_{}"}}
reset: {total: zeros_like(total)}
```

```yaml
out: {total: {each: reward, name: "episode_{}", type: like(reward)}}
reset: {total: zeros_like(total)}
```
""",
    without="the spec says nothing, or something that the first step contradicts.",
)

TYPE_CHANGES = Rule(
    "SG315",
    "output of another type after a step",
    """\
What `step` computes is stored where the value of `reset` was, so both have the same dtype and the same dimensions.

```yaml
reset: {stacked: tile(frame, 4, axis=-1)}
step: {next.stacked: "concat(stacked, next.frame, axis=-1)"}
```

```yaml
step: {next.stacked: "concat(narrow(stacked, size(frame), axis=-1), next.frame, axis=-1)"}
```
""",
    without="rollouts can't be stacked: the value grows from step to step.",
)

NOT_STATIC = Rule(
    "SG316",
    "parameter that shapes a type and is not static",
    """\
How often something is repeated, which axis is meant and how many elements are cut decide the shape of what comes out.
The spec has to know, so the parameter has to be known when the transform is made, and may not change.

```yaml
params: {N: {type: int, min: 1}}
reset: {stacked: tile(frame, N, axis=-1)}
```

```yaml
params: {N: {type: int, min: 1, static: true}}
```
""",
    without="somebody changes the attribute, and shapes no longer are those of the spec.",
)

MASK_ENDS = Rule(
    "SG337",
    "mask of an action that nobody chooses",
    """\
A mask says what of an action is allowed, and random actions keep to it. It is about the action as it is chosen: where a
transform computes that action of another one, the mask says nothing of what is chosen, and where the mask is dropped
nobody sees it.

```yaml
in:
  mask: {key: action_mask, type: "bool[3]"}
  u: {key: action, type: "int64[]", inverse: true}
out: {v: {each: u, type: categorical(3)}}
inverse: {u: 2 - v}
masks: {u: mask}
```

```yaml
masks: {v: mask}
```
""",
    without="random actions that the environment does not allow, or that it never takes.",
)

OUTPUTS_OVERLAP = Rule(
    "SG338",
    "two outputs of one key",
    """\
Two outputs may share a key where never both exist: their conditions exclude each other.

```yaml
out:
  index: {each: u, name: same, type: int64, when: categorical}
  bits: {each: u, name: same, type: "bool[4]", when: given(names)}
```

```yaml
  bits: {each: u, name: same, type: "bool[4]", when: not categorical}
```
""",
    without="the one that comes last is there, whatever the spec says.",
)

HIDDEN_UNREAD = Rule(
    "SG340",
    "hidden output that nothing reads",
    """\
A hidden output is shown to nobody: it is there for the next step, or for `map`.

```yaml
out: {window: {each: x, hidden: true}}
reset: {window: "tile(x, 3, axis=-1)"}
step: {next.window: "concat(window, next.x, axis=-1)"}
```

Read it, or show it: leave `hidden` out.
""",
    without="memory and time for a value that changes nothing.",
)

OUTER_TYPE = Rule(
    "SG335",
    "what the policy writes, without a type",
    """\
`inverse` computes what the environment is given of what the policy wrote. That says nothing of what the policy writes,
so its type is declared.

```yaml
in: {u: {each: env.action, type: "float[...]", inverse: true}}
out: {v: {each: u}}
inverse: {u: 2 * v}
```

```yaml
out: {v: {each: u, type: like(u)}}
```
""",
    without="the action spec is a guess, and random actions are of another shape than the policy's.",
)

NOT_BOUNDED = Rule(
    "SG336",
    "bounds of what may have none",
    """\
`low(u)` and `high(u)` are the bounds of the spec that `u` stands for. Its pattern has to ask for them; a key without
finite bounds is refused then.

```yaml
in: {u: {each: env.action, type: "float[...]", inverse: true}}
inverse: {u: low(u) + v * (high(u) - low(u))}
```

```yaml
in: {u: {each: env.action, type: "float[...] in bounded", inverse: true}}
```
""",
    without="infinity times zero: every action is nan.",
)

CLASSES_JOINED = Rule(
    "SG349",
    "reshape across the classes of a one-hot",
    """\
The last axis of a one-hot vector are its classes. Joined with another axis, or taken apart, they are one-hot no more.

```yaml
transforms: [{FlattenAction: {first_dim: -2}}]     # of onehot(4)[3]
```

Flatten axes in front of the last, or read the classes.
""",
    without="a spec of 12 classes of which four are 1, and an error at the first step.",
)

UNASKED_OUTPUT = Rule(
    "SG392",
    "output that users may leave out, and can't ask for",
    """\
`optional: true` of an output says that it is there only where users give its key. For that it is one key, with the
keyword of the constructor by which they give it.

```yaml
out: {mask: {key: mask, type: "bool[4]", optional: true}}
```

```yaml
out: {mask: {key: mask, type: "bool[4]", keyword: mask_key, optional: true}}
```
""",
    without="An output that is never there.",
)
