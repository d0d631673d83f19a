"""SG6xx: devices, batch sizes, done keys."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

NEVER_MEET = Rule(
    "SG601",
    "parts on devices that never meet",
    """\
What is observed goes to the policy, what was collected to the losses: each part gets the others' numbers. No machine has
accelerators of two kinds.

```yaml
device: {env: mps, policy: mps, loss: "cuda:0"}
```

```yaml
device: {env: cpu, policy: cpu, loss: "cuda:0"}
```
""",
    without="One of the two is not there, which is found when its part is made.",
)

NO_FLOAT64 = Rule(
    "SG602",
    "float64 on a device that has none",
    """\
Apple's `mps` has no float64. An environment that gives such numbers is converted in its chain, or stays on the CPU.

```yaml
env: Simulated  # observes float64
device: mps
```

```yaml
env: SimulatedTrain  # with DoubleToFloat in its chain
device: mps
```
""",
    without="TypeError at the first step.",
)

STORAGE = Rule(
    "SG603",
    "a buffer in two places",
    """\
`storage` says where a buffer lies: in `memory`, in files (`memmap`), or on the `device` of the data. The first two are the
CPU's.

```yaml
device: {data: "cuda:0", loss: "cuda:0"}
data: {replay: {capacity: 100_000, batch_size: 128, storage: memmap}}
```

```yaml
device: {data: "cuda:0", loss: "cuda:0"}
data: {replay: {capacity: 100_000, batch_size: 128, storage: device}}
```
""",
    without="Each batch goes to the accelerator, back to the CPU to be stored, and to the accelerator again when it is sampled.",
)

NO_DEVICE = Rule(
    "SG604",
    "not a device",
    """\
Devices are called as torch calls them: `cpu`, `cuda`, `cuda:1`, `mps`, `xpu`. Whether the machine has one is asked when a
training begins, before anything is made.

```yaml
device: gpu
```

```yaml
device: "cuda:0"
```
""",
    without="RuntimeError when the first part is made.",
)

MASK_SHAPE = Rule(
    "SG613",
    "action mask of the wrong shape",
    """\
A mask says for each value of a discrete action whether it is allowed, so it is a `bool` observation with
one entry a value: for `categorical(5)[n]` it is `bool[n, 5]`.

```yaml
action: {agents.action: "categorical(5)[n]"}
observation: {agents.action_mask: "bool[n, 4]"}
masks: {agents.action: agents.action_mask}
```

```yaml
observation: {agents.action_mask: "bool[n, 5]"}
```
""",
    without="A mask of another shape broadcasts: it allows an action for all agents or none.",
)

DONE_ALONE = Rule(
    "SG621",
    "`done` can't be assigned",
    """\
`done` alone cannot tell a time limit from a terminal state. A loss that bootstraps needs to know: after a
time limit the next state still has a value, after a terminal state it has none. So an environment assigns
`terminated` and `truncated`, and `done` is derived from them.

```yaml
step:
  done: x > 1
```

```yaml
step:
  terminated: x > 1
```
""",
    without="Every time limit is a terminal state for the loss, and values learn to fear the clock.",
)

DONE_ROOT = Rule(
    "SG622",
    "no done flags at the root",
    """\
An episode of the whole environment ends where the flags at the root say so: rollouts stop and reset by them. Groups
may have flags of their own beside them.

```yaml
done: [agents]
```

```yaml
done: ["", agents]
step:
  agents.terminated: energy <= 0
  terminated: all(agents.terminated)
```
""",
    without="Rollouts look for `done` at the root and never stop, or raise KeyError.",
)

DONE_SHAPE = Rule(
    "SG623",
    "reward without done flags of its shape",
    """\
Value targets combine a reward with the done flags beside it, so the two have one shape. A reward for each
agent needs done flags for each agent. Transforms keep it: what takes the place of one number is `float32[]`, and no `float32[1]`.

```yaml
reward: [agents.reward]
done: [""]
```

```yaml
reward: [agents.reward]
done: ["", agents]
step:
  agents.terminated: energy <= 0
```
""",
    without="`[3, 1]` rewards broadcast against a root `[1]` in the estimator: each agent's return ends by "
    "the others' flags.",
)
