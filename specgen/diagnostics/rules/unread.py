"""SG14x: declarations that nothing reads, and `allow`."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

UNREAD_DECLARATION = Rule(
    "SG141",
    "declared, and nothing reads it",
    """\
A parameter, constant, size, function, network, role or carried output is declared, and no expression reads it. A
constructor that takes a keyword without effect is a trap: whoever changes it believes in what comes out. Most often
a formula has the number itself, or another name, in its place.

```yaml
params: {gravity: 9.8, dt: 0.05}
step:
  next.v: v + 9.8 * dt
```

Read it where it was meant, or leave it out:

```yaml
params: {gravity: 9.8, dt: 0.05}
step:
  next.v: v + gravity * dt
```
""",
    severity="warning",
    without="The constructor takes the keyword and the run does not change: an experiment that varies `gravity` "
    "measures nothing but noise.",
)

NO_EFFECT = Rule(
    "SG142",
    "state or action without effect",
    """\
No reward, observation or done flag depends on this key, now or later: it could be left out and every episode
would be the same. A value that is integrated and then forgotten in the next formula looks like this, and so does a
counter that nothing compares with a limit.

```yaml
step:
  next.v: v + dt * action[0]
  next.x: x + dt * action[0]      # v was meant
observe:
  observation: stack(x)
```

Read it where it was meant:

```yaml
step:
  next.v: v + dt * action[0]
  next.x: x + dt * next.v
```

What is kept for a logger only, or an action where there is nothing to choose, is allowed in its environment:
`allow: [SG142]`.
""",
    severity="warning",
    without="The tensors are carried and stored for nothing, and the dynamics are not those that were meant; "
    "training runs, on another problem.",
)

NOT_A_WARNING = Rule(
    "SG143",
    "`allow` names no warning",
    """\
`allow` lists codes of warnings that are meant. A code that does not exist silences nothing, and an error can't be
allowed: the code that would be generated is wrong.

```yaml
allow: [SG803]
```

Mend the error; list warnings only:

```yaml
allow: [SG311]
```
""",
    without="A misspelt code would leave its warning on, and an allowed error would let wrong code through.",
)

ALLOWS_NOTHING = Rule(
    "SG144",
    "`allow` silences nothing",
    """\
The declaration allows a warning that it does not get: what it was about is gone, or the code was never right. If it
stays, it hides the next mistake of that kind.

```yaml
chains:
  Train: {env: Pendulum, transforms: [RewardSum], allow: [SG311]}
```

Leave it out:

```yaml
chains:
  Train: {env: Pendulum, transforms: [RewardSum]}
```
""",
    severity="warning",
    without="The permission outlives its reason, and the next real mistake of that kind goes unseen.",
)
