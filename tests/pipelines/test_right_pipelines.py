"""Pipelines as engineers write them, with nothing to complain of: no diagnostic of any kind.

Whoever adds a rule finds its false alarms here.
"""

from __future__ import annotations

import pytest
import yaml

from specgen.settings import Config
from specgen.source import PythonSchema
from tests.support import LIBRARY, compile_sources, library_records

CONFIG = Config("schemas", "made", "made")
HEAD = """\
specgen: 1
doc: A training.
import: [{imports}]
pipelines:
  Training:
    doc: A training.
"""
DQN = "pipelines/dqn_cartpole, chains/cartpole, losses/dqn"
PPO = "pipelines/ppo_pendulum, chains/pendulum, losses/ppo"
SAC = "pipelines/sac_mountain_car, chains/mountain_car, losses/sac"

RIGHT: dict[str, tuple[str, str]] = {
    "alone": (
        "chains/cartpole, losses/dqn",
        """\
    env: CartPoleTrain
    params: {width: {default: 128, min: 8, doc: size of a layer}, rate: 1.0e-3}
    networks: {value_network: {mlp: [width, width], activation: elu, layer_norm: true}}
    policy: {of: value_network, explore: {epsilon_greedy: {eps: 0.1}}, random_frames: 1_000}
    loss: {DQNLoss: {loss_function: smooth_l1}}
    data: {replay: {num_envs: 4, num_steps: 4, capacity: 50_000, batch_size: 64, updates: 4, storage: memmap}}
    target_updater: {hard: {interval: 200}}
    optimizer: {adamw: {lr: rate, weight_decay: 1.0e-4}, max_grad_norm: 10}
    stop: {frames: 100_000}
""",
    ),
    "value of each action without targets": (
        DQN,
        """\
    extends: DQNCartPole
    loss: {DQNLoss: {double_dqn: false, delay_value: false}}
    target_updater: drop
""",
    ),
    "priorities": (
        DQN,
        """\
    extends: DQNCartPole
    data: {replay: {sampler: {prioritized: {alpha: 0.6, beta: "linear(0.4, 1.0)"}}}}
""",
    ),
    "values that stay as they were": (
        PPO,
        """\
    extends: PPOPendulum
    networks: {critic_network: {frozen: true}}
    terms: [loss_objective]
    optimizer: {critic: drop}
""",
    ),
    "slices for a memory": (
        DQN,
        """\
    extends: DQNCartPole
    networks: {memory: {lstm: 64}, value_network: {trunk: memory, mlp: [64]}}
    data: {replay: {batch_size: 512, warm_up_frames: 2_000, updates: 32, sampler: {slices: {length: 16}}}}
""",
    ),
    "slices for a trace": (
        DQN,
        """\
    extends: DQNCartPole
    params: {length: {default: 8, min: 2, doc: steps of a slice}}
    value_estimator: {td_lambda: {gamma: 0.99, lmbda: 0.9}}
    data: {replay: {batch_size: 512, updates: 32, sampler: {slices: {length: length}}}}
    workers: {processes: 2}
""",
    ),
    "recorded first, in the place of a buffer": (
        SAC,
        """\
    extends: SACMountainCar
    data: {online_and_recorded: {path: data/car, num_envs: 8, capacity: 300_000, batch_size: 256, updates: 4, storage: memmap}}
""",
    ),
    "noise that drifts, in the place of other noise": (
        "pipelines/ddpg_pendulum, chains/pendulum, losses/ddpg",
        """\
    extends: DDPGPendulum
    policy: {explore: {ornstein_uhlenbeck: {sigma: "linear(0.4, 0.1)", theta: 0.2}}}
""",
    ),
    "noise that depends on the state, from a buffer": (
        SAC,
        "    extends: SACMountainCar\n    policy: {explore: {gsde: {every: 16}}}\n",
    ),
    "noise that depends on the state, on features of a memory, with orthogonal weights": (
        PPO,
        """\
    extends: PPOPendulum
    networks:
      memory: {gru: 32}
      actor_network: {trunk: memory, mlp: [64], scale: drop, init: {orthogonal: {head_gain: 0.01}}}
      critic_network: {trunk: memory}
    data: {on_policy: {minibatches: 4}}
    policy: {explore: {gsde: {sigma: 0.6}}}
""",
    ),
    "noise that depends on the features of a trunk": (
        SAC,
        "    extends: SACMountainCar\n    networks: {encoder: {mlp: [64]}, actor_network: {trunk: encoder, mlp: []}}\n"
        "    policy: {explore: {gsde: {every: 16, sigma: 0.3}}}\n    device: {loss: cpu}\n",
    ),
    "a decaying exploration and step size": (
        DQN,
        """\
    extends: DQNCartPole
    policy: {explore: {epsilon_greedy: {eps: "exponential(1.0, 0.01, over=100_000)"}}}
    optimizer: {rmsprop: {lr: "cosine(1.0e-3, 1.0e-5)", alpha: 0.95, eps: 1.0e-2}}
""",
    ),
    "another task": (
        DQN.replace("cartpole, losses", "acrobot, losses"),
        "    extends: DQNCartPole\n    env: AcrobotTrain\n    stop: {return: -100}\n",
    ),
    "arguments of the environment": (
        DQN,
        "    extends: DQNCartPole\n    env: {CartPoleTrain: {length: 0.7}}\n    evaluate: {env: CartPoleTrain}\n",
    ),
    "an environment of Gymnasium's in a chain": (
        DQN,
        "    extends: DQNCartPole\n    env: CartPoleGymTrain\n",
    ),
    "an environment of Gymnasium's without a chain": (
        PPO.replace("chains/pendulum", "chains/pendulum, envs/pendulum"),
        "    extends: PPOPendulum\n    env: PendulumGym\n    evaluate: {env: PendulumTrain}\n",
    ),
    "workers": (PPO, "    extends: PPOPendulum\n    workers: {ray: 8, cpus: 1, gpus: 0.25}\n"),
    "workers with a memory, and noise that is kept": (
        PPO,
        """\
    extends: PPOPendulum
    networks:
      memory: {lstm: 32}
      actor_network: {trunk: memory, scale: drop}
      critic_network: {trunk: memory}
    data: {on_policy: {minibatches: 4}}
    policy: {explore: {gsde: {every: 8}}}
    workers: {ray: 4}
""",
    ),
    "workers that do not wait": (
        SAC,
        "    extends: SACMountainCar\n    workers: {processes: 4, sync: false}\n",
    ),
    "workers that do not wait, and what makes up for it": (
        PPO + ", losses/policy_gradient",
        "    extends: PPOPendulum\n    loss: {A2CLoss: {entropy_coeff: 0.01}}\n    value_estimator: {vtrace: {gamma: 0.95}}\n"
        "    data: {on_policy: {epochs: 1}}\n    workers: {processes: 4, sync: false}\n",
    ),
    "advantages of a whole batch": (
        PPO,
        """\
    extends: PPOPendulum
    loss: {ClipPPOLoss: {normalize_advantage: false, clip_value: 0.2}}
    value_estimator: {gae: {average_gae: true}, when: epoch}
""",
    ),
    "minibatches by their number": (
        PPO,
        "    extends: PPOPendulum\n    data: {on_policy: {num_envs: 8, num_steps: 256, minibatches: 8}}\n",
    ),
    "a penalty in the place of clipping": (
        PPO,
        "    extends: PPOPendulum\n    loss: {KLPENPPOLoss: {dtarg: 0.02, beta: 0.5, normalize_advantage: true}}\n",
    ),
    "a scale that depends on the state": (
        PPO,
        "    extends: PPOPendulum\n    networks: {actor_network: {dist: truncated_normal, scale: state}}\n",
    ),
    "actor and critic with steps of their own": (
        PPO,
        """\
    extends: PPOPendulum
    optimizer:
      actor: {of: [actor_network], adam: {lr: 3.0e-4}, max_grad_norm: 0.5}
      critic: {of: [critic_network], adam: {lr: 1.0e-3}}
""",
    ),
    "policy gradients with a sum to the end": (
        PPO + ", losses/policy_gradient",
        "    extends: PPOPendulum\n    loss: {A2CLoss: {entropy_coeff: 0.01}}\n    value_estimator: {td1: {gamma: 0.95}}\n"
        "    data: {on_policy: {epochs: 1}}\n",
    ),
    "discrete actions": (
        PPO.replace("chains/pendulum", "chains/cartpole"),
        """\
    extends: PPOPendulum
    env: CartPoleTrain
    networks: {actor_network: {dist: drop, scale: drop}}
    loss: {ClipPPOLoss: {entropy_bonus: true, entropy_coeff: 0.01}}
    value_estimator: {gae: {gamma: 1}}
    stop: {return: 475}
""",
    ),
    "one optimizer for several networks": (
        SAC,
        "    extends: SACMountainCar\n    optimizer: {adam: {lr: 3.0e-4}}\n",
    ),
    "a temperature that stays": (
        SAC,
        """\
    extends: SACMountainCar
    loss: {SACLoss: {fixed_alpha: true, alpha_init: 0.2}}
    optimizer: {temperature: drop}
""",
    ),
    "an entropy that a policy may have": (
        SAC,
        "    extends: SACMountainCar\n    loss: {SACLoss: {target_entropy: -1.5}}\n",
    ),
    "many values and many updates": (
        SAC + ", losses/redq",
        """\
    extends: SACMountainCar
    loss: {REDQLoss: {num_qvalue_nets: 10, sub_sample_len: 2}}
    data: {replay: {num_envs: 1, num_steps: 1, updates: 20}}
""",
    ),
    "a policy and a critic on one memory": (
        PPO,
        """\
    extends: PPOPendulum
    params: {width: 32}
    networks:
      encoder: {mlp: [width], layer_norm: true}
      memory: {trunk: encoder, lstm: width}
      actor_network: {trunk: memory, mlp: drop}
      critic_network: {trunk: memory, in: [observation], mlp: [16], dropout: 0.1}
    data: {on_policy: {minibatch_size: 512}}
    optimizer:
      actor: {of: [memory, actor_network], adam: {lr: 3.0e-4}}
      critic: {of: [loss_critic], adam: {lr: 1.0e-3}}
""",
    ),
    "vectors that are learned for indices": (
        PPO.replace("chains/pendulum", "chains/frozen_lake"),
        """\
    extends: PPOPendulum
    env: FrozenLakeTrain
    networks:
      encoder: {embedding: 16, mlp: [32]}
      actor_network: {dist: drop, scale: drop, trunk: encoder}
      critic_network: {trunk: encoder, init: {orthogonal: {head_gain: 0.1}}}
    value_estimator: {gae: {gamma: 0.99}}
    stop: {return: 0.7}
""",
    ),
    "terms in the place of networks": (
        SAC,
        """\
    extends: SACMountainCar
    optimizer:
      actor: {of: [loss_actor]}
      critic: {of: [loss_qvalue]}
      temperature: {of: [loss_alpha]}
""",
    ),
    "parts on devices of their own, in bfloat16": (
        PPO,
        """\
    extends: PPOPendulum
    device: {env: cpu, policy: cpu, data: "cuda:0", loss: "cuda:0"}
    precision: bfloat16
""",
    ),
    "a buffer on the device": (
        DQN,
        "    extends: DQNCartPole\n    device: cuda\n    data: {replay: {storage: device}}\n",
    ),
    "a bonus that fades": (
        "pipelines/ppo_rnd_mountain_car, chains/mountain_car, losses/ppo, losses/rnd",
        """\
    extends: PPORNDMountainCar
    reward: {bonus: {from: novelty.prediction_error, coeff: "linear(1.0, 0.0)", normalize: false}}
""",
    ),
    "passes and a training that end early": (
        PPO,
        """\
    extends: PPOPendulum
    data: {on_policy: {until: kl_approx > 0.05}}
    optimizer: {adam: {lr: "piecewise((0, 1.0e-3), (50_000, 1.0e-3), (50_000, 1.0e-4))"}}
    stop: {hours: 1.5}
""",
    ),
    "values that a team mixes": (
        "envs/simple_tag, transforms/rewards, transforms/step_counter, losses/qmixer, losses/sac",
        """\
    env: TeamTag
    params: {mixed: {default: 16, min: 4, doc: hidden numbers of the mixer}}
    networks:
      memory: {gru: 32}
      local_value_network: {trunk: memory}
      mixer_network: {mixer: {qmix: mixed}, in: [adversary.observation]}
      actor_network: {mlp: [64]}
      qvalue_network: {mlp: [64]}
    loss: {adversary: {QMixerLoss: {}}, agent: {DiscreteSACLoss: {}}}
    policy: {explore: {epsilon_greedy: {eps: 0.1}}}
    data: {replay: {num_envs: 8, num_steps: 25, capacity: 100_000, batch_size: 200, warm_up_frames: 2_000, updates: 25, sampler: {slices: {length: 5}}}}
    target_updater:
      local_value_network: {hard: {interval: 200}}
      mixer_network: {hard: {interval: 200}}
      qvalue_network: {soft: {tau: 0.01}}
    optimizer: {adam: {lr: 5.0e-4}, max_grad_norm: 10}
    evaluate: {of: adversary}
    stop: {frames: 100_000}
chains:
  TeamTag:
    env: SimpleTag
    transforms:
      - StepCounter: {max_steps: 25}
      - LineariseRewards: {in_keys: [adversary.reward], out_keys: [reward]}
""",
    ),
    "features as many as a parameter says": (
        "pipelines/ppo_rnd_mountain_car, chains/mountain_car, losses/ppo, losses/rnd",
        """\
    extends: PPORNDMountainCar
    params: {features: {default: 32, min: 4}}
    networks: {predictor_network: {out: {k: features}}, target_network: {out: {k: features}}}
""",
    ),
    "quantiles of a chain with a mask": (
        "chains/taxi, losses/dqn",
        """\
    env: TaxiTrain
    networks: {value_network: {mlp: [64], out: {quantiles: 16}}}
    policy: {explore: {epsilon_greedy: {eps: 0.1}}}
    loss: {QRDQNLoss: {gamma: 0.97, double_dqn: true}}
    data: {replay: {num_envs: 4, capacity: 50_000, batch_size: 64, warm_up_frames: 500, n_step: 3}}
    target_updater: {hard: {interval: 200}}
    optimizer: {adam: {lr: 1.0e-3}}
    stop: {frames: 100_000}
""",
    ),
    "checkpoints without the buffer": (
        DQN,
        "    extends: DQNCartPole\n    checkpoint: {buffer: false}\n",
    ),
}


def text_of(name: str) -> str:
    imports, body = RIGHT[name]
    return HEAD.format(imports=", ".join(f"specgen_std/{one.strip()}" for one in imports.split(","))) + body


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said(name: str) -> None:
    made = compile_sources(
        {"schemas/a.yaml": text_of(name)}, CONFIG, gymnasium=library_records(), library=LIBRARY
    )
    assert [str(item) for item in made.diagnostics] == []
    assert "def train(" in made.files["made/a.py"]


def test_there_are_many() -> None:
    assert len(RIGHT) >= 15


@pytest.mark.parametrize(
    "name", ["alone", "priorities", "actor and critic with steps of their own", "a bonus that fades"]
)
def test_the_same_declaration_in_python_gives_the_same_files(name: str) -> None:
    text = text_of(name)
    data = yaml.safe_load(text)
    del data["specgen"]
    first, second = (
        compile_sources({path: source}, CONFIG, gymnasium=library_records(), library=LIBRARY)
        for path, source in (("schemas/a.yaml", text), ("schemas/a.py", PythonSchema(data)))
    )
    assert not second.diagnostics
    assert first.files["made/a.py"].split('"""', 1)[1] == second.files["made/a.py"].split('"""', 1)[1]
