"""A small project with several kinds of declarations, which name each other across files."""

from __future__ import annotations

Texts = dict[str, str]
"""Schemas, by their paths."""

PROJECT: Texts = {
    "schemas/shapes.yaml": """\
specgen: 1
# Shapes that others use.
specs:
  arm: {kind: bounded, dtype: float32, shape: [n], low: -1, high: 1, doc: joints}
  push: float32[1] in [-1, 1]
""",
    "schemas/envs/walk.yaml": """\
specgen: 1
doc: Walking.
import: [../shapes]
envs:
  Walk:
    doc: Walk along a line.
    params:
      pace: {default: 0.5, min: 0.1, max: 1, doc: how far a step goes}
    state: {x: {kind: unbounded, dtype: float32, doc: where one is}}
    action: {action: push}
    observation: {observation: "float32[1]"}
    reset: {x: "uniform(-0.5, 0.5)"}
    step:
      next.x: x + pace * action[0]
      terminated: abs(next.x) > 3.0
      reward: -abs(next.x)
    observe: {observation: stack(x)}
""",
    "schemas/envs/reach.yaml": """\
specgen: 1
import: [../shapes]
envs:
  Reach:
    dims: {n: 2}
    state: {q: arm}
    action: {action: "float32[2] in [-1, 1]"}
    observation: {observation: "float32[2]"}
    reset: {q: "uniform(-0.5, 0.5, shape=2)"}
    step:
      next.q: clip(q + 0.1 * action, -1, 1)
      reward: -sum(next.q)
    observe: {observation: q}
""",
    "schemas/parts/less.yaml": """\
specgen: 1
doc: Less of everything.
transforms:
  Less:
    doc: Take something off each reward.
    params:
      amount: {default: 1.0, min: 0, doc: what is taken off}
    in:
      reward: {each: env.reward, type: "float[...]", doc: what there is}
    out:
      left: {each: reward, name: same, type: like(reward), doc: what is left}
    map:
      left: reward - amount
""",
    "schemas/parts/more.yaml": """\
specgen: 1
transforms:
  More:
    in:
      reward: {each: env.reward, type: "float[...]"}
    out:
      left: {each: reward, name: same, type: like(reward)}
    map:
      left: reward + 1.0
""",
    "schemas/trained.yaml": """\
specgen: 1
import: [envs/walk, parts/less, specgen_std/transforms/step_counter]
chains:
  WalkTrain:
    env: Walk
    transforms: [Less, {StepCounter: {max_steps: 9}}]
""",
    "schemas/both.yaml": """\
specgen: 1
import: [envs/walk, envs/reach, parts/less, parts/more]
chains:
  WalkMore:
    env: Walk
    transforms: [More]
  ReachLess:
    env: Reach
    transforms: [More, Less]
""",
    "schemas/losses/value.yaml": """\
specgen: 1
losses:
  OfValues:
    abstract: true
    networks: {critic: {in: [observation], out: {state_value: "float32[1]"}, target: true}}
    keys: {reward: reward, terminated: terminated}
    value_estimator: {default: td0, value: next_value}
    let:
      value: critic(now)
      next_value: critic.target(next)
      goal: stop_grad(value_estimate(next_value))
    terms:
      loss: distance(value, goal, l2)
""",
    "schemas/losses/far.yaml": """\
specgen: 1
import: [value]
losses:
  FarLoss:
    extends: OfValues
    terms:
      loss: distance(value, goal, l1)
""",
    "schemas/losses/farther.yaml": """\
specgen: 1
import: [far]
losses:
  FartherLoss:
    extends: FarLoss
    params: {scale: 2.0}
    terms:
      loss: scale * distance(value, goal, l1)
""",
    "schemas/alone.yaml": """\
specgen: 1
envs:
  Still:
    state: {x: float32}
    action: {action: "float32[1] in [-1, 1]"}
    observation: {observation: "float32[1]"}
    reset: {x: 0.0}
    step:
      next.x: x + action[0]
      reward: 1.0
    observe: {observation: stack(x)}
""",
}
