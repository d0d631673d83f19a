"""SG47x: what specs say of the roles of a loss, and parameters that follow from it."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

NO_DOMAIN = Rule(
    "SG471",
    "domain of a role that has none",
    """\
`low(action)` and `high(action)` are the bounds of an action, and `dim(action)` how many numbers it has. They are known
of roles with a `domain`: the keywords of the constructor that say it. Bounds are read by terms, sizes by the `auto` of a
parameter.

```yaml
keys: {action: action}
let: {next_action: "clip(actor.target(next) + noise, low(action), high(action))"}
```

Say where the bounds come from:

```yaml
keys: {action: {key: action, domain: [action_spec, bounds]}}
let: {next_action: "clip(actor.target(next) + noise, low(action), high(action))"}
```
""",
    without="NameError at the first batch; or bounds of -1 and 1 for actions that go from 0 to 5.",
)

AUTO = Rule(
    "SG472",
    "parameter whose default is computed",
    """\
`default: auto` stands for the number that the expression under `auto` gives when the loss is made. One needs the other,
and the expression is a number of the constructor: of parameters and of the sizes of roles with a domain.

```yaml
params: {target_entropy: {type: float, default: auto}}
```

```yaml
params: {target_entropy: {type: float, default: auto, auto: -dim(action)}}
```
""",
    without="The word reaches the formula: TypeError at the first batch.",
)

DOMAIN_OF = Rule(
    "SG474",
    "unknown source of a domain",
    """\
`domain` names who says what the values of a role are: the keywords `action_spec` and `bounds` of the constructor, and
policies of the loss, which may have a spec of their own.

```yaml
networks: {actor: {policy: action, in: [observation]}}
keys: {action: {key: action, domain: [actor_spec]}}
```

Write:

```yaml
networks: {actor: {policy: action, in: [observation]}}
keys: {action: {key: action, domain: [action_spec, actor]}}
```
""",
    without="TypeError of the constructor; or bounds of another action.",
)

WHEN_MADE = Rule(
    "SG475",
    "value of a batch where a loss is made",
    """\
`require`, the `auto` of a parameter, and `init`, `low` and `high` of a learned number are computed when the loss is made,
of parameters. Values under `let` and what the data hold are known later, for each batch.

```yaml
params: {start: {default: 1.0, above: 0}}
learnable: {log_alpha: {init: first}}
let: {first: log(start)}
```

Write:

```yaml
params: {start: {default: 1.0, above: 0}}
learnable: {log_alpha: {init: log(start)}}
```
""",
    without="NameError in the constructor.",
)
