"""Mistakes that both checkers must find, each on its line and nowhere else."""
# ruff: noqa: B018, F401

from __future__ import annotations

from functools import partial

import torch
from specgen_runtime.envs import ParallelEnv, SerialEnv
from specgen_runtime.modules import QValueActor
from specgen_runtime.transforms import StepCounter as Missing  # E
from specgen_std.chains import CartPoleGymTrain, CartPoleTrain
from specgen_std.envs import Pendulum
from specgen_std.losses import ClipPPOLoss, DQNLoss
from specgen_std.transforms import StepCounter
from torch import Tensor, nn

env = CartPoleTrain(batch_size=(3,))
data = env.rollout(10)

# keys
data["observaton"]  # E
data["next", "rewad"]  # E
data["next"]["obsevation"]  # E
data["reward"]  # E
data["next", "action"]  # E
data.get("step_cuont")  # E
data.get(("next", "episode_rewad"))  # E
data.set("observaton", torch.zeros(3, 10, 4))  # E
env.reset()["is_int"]  # E
env.step(env.rand_step())["next", "terminatd"]  # E
_, root = env.step_and_maybe_reset(env.rand_action(env.reset()))
root["step_conut"]  # E
count: str = data["step_count"]  # E
data[env.reward_key]  # E
data.get("step_count", None).float()  # E
data.get(("next", "reward"), 0.0).mean()  # E
data.set(("next", "own"), torch.zeros(3, 10))  # E

# constructors
CartPoleTrain(batchsize=(3,))  # E
CartPoleTrain(gravty=9.8)  # E
CartPoleTrain(gravity="9.8")  # E
Pendulum(batch_size=3.5)  # E
StepCounter(max_step=5)  # E
StepCounter(max_steps="5")  # E

# attributes
env.batch_sise  # E
env.params.gravty  # E
env.action_spec.spaces  # E
env.observation_spec.shapes  # E
env.full_reward_sepc  # E
env.rollot(10)  # E
env.rollout(10, break_when_any_don=True)  # E
Pendulum().params.mass  # E
CartPoleGymTrain().observaton_spec  # E

# specs
env.action_spec.low  # E
env.action_spec.nn  # E
env.observation_spec["observaton"]  # E
env.observation_spec["observation"].lo  # E
env.observation_spec["action"]  # E
env.full_reward_spec["rewad"]  # E
env.full_done_spec.get("terminatd")  # E
env.state_spec["observation"]  # E
Pendulum().action_spec.n  # E
size: str = Pendulum().action_spec_unbatched.high  # E

# batches
SerialEnv(2, CartPoleTrain).rollout(3)["observaton"]  # E
SerialEnv(2, lambda: CartPoleTrain(gravity=9.0)).reset()["reward"]  # E
ParallelEnv(2, partial(CartPoleTrain, gravity=9.0)).rollout(3)["next", "rewad"]  # E
ParallelEnv(2, [CartPoleTrain, CartPoleTrain]).rollout(3)["next", "action"]  # E
SerialEnv(2, StepCounter)  # E

# losses
actor = QValueActor(nn.Linear(4, 2), in_keys=["observation"], spec=env.action_spec)
loss_module = DQNLoss(actor, loss_function="l3")  # E
DQNLoss(actor, delay_vlaue=True)  # E
loss_module.set_keys(prioritty="td")  # E
loss_module.set_keys(reward=3)  # E
loss_module.tensor_keys.prioritty  # E
loss_module.target_value_network_parms  # E
loss_module(data)["los"]  # E
total: Tensor = loss_module(data)["loss_value"]  # E


def schedule(loss: ClipPPOLoss) -> None:
    loss.clip_epsilon = "linear"  # E
    loss.clip_epsilon = {"move": 0.2}  # E
