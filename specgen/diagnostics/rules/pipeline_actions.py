"""SG635 to SG637: pipelines: policies over several actions."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

APART = Rule(
    "SG635",
    "actions that nothing holds together",
    """\
A policy over several actions, and its loss, take them for one action of several parts: entries of one tensordict.

```yaml
action: {move: "categorical(3)", force: "float32[1] in [-1, 1]"}
```

```yaml
action: {action.move: "categorical(3)", action.force: "float32[1] in [-1, 1]"}
```
""",
    without="The loss reads `action`, which nobody writes: a KeyError at the first update.",
)

ONE_ACTION = Rule(
    "SG636",
    "several actions for a loss of one",
    """\
Losses that weigh what was done by its log-probability take several actions, and several choices at once: that of all is the sum.
Those with a critic of actions, values of each of them, or a policy that is certain of its action, take one: numbers beside each other
are one vector, finite sets one set of all combinations. `BranchingDQNLoss` takes one action of several choices, and values each.

```yaml
loss: SACLoss        # the environment takes `action.move` and `action.force`
```

```yaml
loss: ClipPPOLoss
```
""",
    without="The critic concatenates an index with numbers, and learns values of actions that there are not.",
)

WHICH_ACTION = Rule(
    "SG637",
    "of which action",
    """\
What is said of one of several actions says of which, by its name without what holds all of them. Of one action it is said
without a name.

```yaml
networks: {actor_network: {mlp: [64, 64], dist: tanh_normal}}        # over `action.move` and `action.force`
```

```yaml
networks: {actor_network: {mlp: [64, 64], actions: {force: {dist: tanh_normal}}}}
```
""",
    without="It is applied to all of them, or to none, and nothing is raised.",
)
