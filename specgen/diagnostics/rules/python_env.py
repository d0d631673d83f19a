"""SG12x: environments whose behaviour is a Python class."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

CLASS_NAME = Rule(
    "SG121",
    "not the name of a class or function",
    """\
`python:` names the class that an environment's behaviour comes from: the module as an `import` statement has
it, a colon, and the class in it. It is text: specgen imports nothing when it checks or builds, so the class may
be written afterwards. The generated environment imports it when one is made. `rewards`, `chat` and the `factory` of a
language model name functions in the same way, `methods` of a transform a class, which its module imports.

```yaml
python: mypackage/warehouse.py:WarehouseDynamics
```

```yaml
python: mypackage.warehouse:WarehouseDynamics
```
""",
    without="ImportError or AttributeError when the first environment is made, on the machine that trains.",
)

SAID_BY_CLASS = Rule(
    "SG122",
    "the Python class says this",
    """\
An environment with `python:` declares what its data are: `action`, `observation`, `state`, `reward`, `done`,
`masks`. What happens to them is the class's to say, so `reset`, `step`, `observe` and `functions` have no place
beside it; and a class that keeps its state to itself (`stateful: true`) has no `state` to declare.

```yaml
python: mypackage.warehouse:WarehouseDynamics
step:
  reward: 1.0
```

```yaml
python: mypackage.warehouse:WarehouseDynamics
reward: [reward]
```
""",
    without="Two descriptions of one behaviour: whichever is not used drifts away from the other.",
)
