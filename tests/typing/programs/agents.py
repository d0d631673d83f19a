"""Groups of agents: nested keys are known to type checkers, and so are the groups."""
# ruff: noqa: B018

from __future__ import annotations

import torch
from specgen_runtime.specs import Composite
from specgen_runtime.typing import TensorDict
from specgen_std.chains import SimpleTagTrain
from specgen_std.envs import SimpleTag
from torch import Tensor

env = SimpleTag(batch_size=(3,))
data = env.rollout(10)

seen: Tensor = data["adversary", "observation"]
reward: Tensor = data["next", "agent", "reward"]
done = data["next", "adversary", "done"] | data["next", "done"].unsqueeze(-1)
group: TensorDict = data["adversary"]
after: Tensor = data["next"]["adversary", "position"]
value = data.get(("agent", "action")).float()
data.set(("agent", "action"), torch.zeros(3, 1, dtype=torch.int64))
names: list[str] = env.group_map["adversary"]
returns: Tensor = SimpleTagTrain().rollout(3)["next", "adversary", "episode_reward"]
picked: int = env.action_spec["agent", "action"].n
lows: Tensor = SimpleTagTrain().observation_spec["step_count"].low
within: Composite = env.observation_spec["adversary"]

env.action_spec["agent", "acton"]  # E
env.full_reward_spec["reward"]  # E
data[env.action_key]  # E
data["adversary", "observaton"]  # E
data["adversaries", "observation"]  # E
data["next", "agent", "rewad"]  # E
data["reward"]  # E
data["next", "agent", "action"]  # E
data.get(("agent", "acton"))  # E
data.set(("agnet", "action"), torch.zeros(3, 1))  # E
env.group_maps  # E
count: int = env.group_map["adversary"]  # E
