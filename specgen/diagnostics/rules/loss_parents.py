"""SG45x: losses that extend others."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

UNKNOWN_PARENT = Rule(
    "SG451",
    "a loss extends what is no loss",
    """\
`extends` names a loss: of the same file, or of one that it imports.

```yaml
losses:
  TD3BCLoss:
    extends: TD3
```

Write the name of a loss that is there, and import its file:

```yaml
import: [td3]
losses:
  TD3BCLoss:
    extends: TD3Loss
```
""",
    without="The import of the generated module fails, or takes another class of that name.",
)

EXTENDS_ITSELF = Rule(
    "SG452",
    "a loss extends itself",
    """\
A loss takes over what another one declares, so that one of them has to stand by itself.

```yaml
losses:
  SACLoss: {extends: REDQLoss}
  REDQLoss: {extends: SACLoss}
```

Say what both share in one of them, or in a third, abstract one:

```yaml
losses:
  SACLoss: {extends: ActorQ}
  REDQLoss: {extends: SACLoss}
```
""",
    without="A NameError when the generated module is imported: each class is made of the other.",
)

NOTHING_TO_DROP = Rule(
    "SG453",
    "nothing to drop",
    """\
`drop` leaves out what a loss would inherit. Here the loss that it extends has nothing of this name.

```yaml
losses:
  CrossQLoss:
    extends: SACLoss
    networks: {qvalue: {target: drop}}
```

Drop it by its name:

```yaml
losses:
  CrossQLoss:
    extends: SACLoss
    networks: {qvalue_network: {target: drop}}
```
""",
    without="What was to be left out stays: target parameters that nothing moves, a keyword without effect.",
)
