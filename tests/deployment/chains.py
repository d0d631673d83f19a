"""Chains whose policies are deployed in tests."""

SCHEMA = """
specgen: 1
import:
  - specgen_std/envs/pendulum
  - specgen_std/transforms/actions
  - specgen_std/transforms/frames
  - specgen_std/transforms/init_tracker
  - specgen_std/transforms/keys
  - specgen_std/transforms/policy_states
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/step_counter
  - specgen_std/transforms/vec_norm
transforms:
  LastAction:
    doc: Show the last action.
    in: {a: {each: env.action, type: "number[...]", written_by: policy}}
    out: {last: {each: a, name: "last_{}", type: like(a)}}
    reset: {last: zeros_like(last)}
    step: {next.last: a}
  Shown:
    doc: What a network makes of an observation.
    networks: {shown: {in: [x], out: "float32[2]"}}
    in: {x: {key: observation, type: "float32[n]"}}
    out: {feature: {key: feature, type: "float32[2]"}}
    map: {feature: shown(x)}
envs:
  Boats:
    doc: Boats are to meet in the middle.
    groups: {boat: {agents: 3}}
    state: {boat.x: "float32[2]"}
    action: {boat.action: "float32[2] in [-2, 2]"}
    observation: {boat.observation: "float32[2]", wind: "float32[1]"}
    reset: {boat.x: "uniform(-3, 3, shape=(boat, 2))"}
    step: {next.boat.x: boat.x + 0.1 * boat.action, boat.reward: "-sum(abs(next.boat.x), axis=-1)"}
    observe: {boat.observation: boat.x, wind: "mean(boat.x)[None]"}
chains:
  Stacked:
    doc: Frames of normalised observations, in place, and an action between -1 and 1.
    env: Pendulum
    params: {frames_until: 40}
    transforms:
      - InitTracker
      - StepCounter: {max_steps: frames_until}
      - VecNorm: {in_keys: [observation, reward]}
      - RewardSum
      - CatFrames: {N: 3, dim: -1, in_keys: [observation]}
      - ActionScaling: {in_keys_inv: [action]}
  NormedFrames:
    doc: Frames that are normalised behind, so that what is carried is another entry than what is seen.
    env: Pendulum
    transforms:
      - ActionScaling: {in_keys_inv: [action]}
      - CatFrames: {N: 3, dim: -1, in_keys: [observation]}
      - VecNorm: {in_keys: [observation]}
      - TimeMaxPool: {in_keys: [observation], out_keys: [most], T: 2}
      - LastAction
      - CatTensors: {in_keys: [observation, most, last_action], out_key: all}
  Choices:
    doc: One of five intervals.
    env: Pendulum
    transforms: [{VecNorm: {in_keys: [observation]}}, {ActionDiscretizer: {num_intervals: 5}}]
  Fleet:
    doc: Groups of agents.
    env: Boats
    transforms: [{VecNorm: {in_keys: [boat.observation]}}, {CatFrames: {N: 2, dim: -1, in_keys: [boat.observation]}}, {StepCounter: {max_steps: 30}}]
  Remembered:
    doc: The policy has a state.
    env: Pendulum
    transforms: [InitTracker, {RecurrentState: {size: 8, hidden_key: memory_h}}, {VecNorm: {in_keys: [observation]}}]
  Seen:
    doc: A network stands in the chain.
    env: Pendulum
    transforms: [{VecNorm: {in_keys: [observation]}}, Shown]
"""
