"""Every line that ends with `# E` is a mistake that both type checkers see."""

from typing import assert_type

from chats_rl.chats import (
    Free,
    Marks,
    MarksKL,
    MarksRow,
    Sums,
    SumsKL,
    SumsRow,
    SumsTrain,
    policy_model,
    reference_model,
)
from specgen_runtime.llm import TransformersWrapper
from torch import Tensor

env = SumsTrain(batch_size=(4,), shuffle=False, source=[{"query": "a", "answer": "b"}])
data = env.rollout(3)
assert_type(data["next", "reward"], Tensor)
assert_type(data["group"], Tensor)
assert_type(data["next", "step_count"], Tensor)
assert_type(Marks().reset()["metrics", "length"], Tensor)
data["history", "full"]
data["next", "query"]
data["next", "rewrd"]  # E
data["history", "text"]  # E
Sums().reset()["step_count"]  # E
Marks().reset()["query"]  # E
Sums(source=[{"query": "a"}])  # E
Sums(source=["a"])  # E
Free(source=["a"])
Free(source=[1])  # E
Sums(batch_size="4")  # E
SumsTrain(group=2)  # E
row: SumsRow = {"query": "a", "answer": 1}  # E
other: MarksRow = {"asked": "a", "marks": [1.0], "query": "b"}  # E

policy = policy_model(device="cpu")
assert_type(policy, TransformersWrapper)
penalised = SumsKL(policy=policy, reference=reference_model(), batch_size=(4,)).rollout(3)
assert_type(penalised["next", "kl_penalty"], Tensor)
assert_type(penalised["ref_log_probs", "full"], Tensor)
assert_type(penalised["next", "episode_reward"], Tensor)
MarksKL(batch_size=(4,))
SumsKL(batch_size=(4,))  # E
SumsKL(policy="checkpoints/sft")  # E
MarksKL(policy=policy)  # E
penalised["next", "kl_penality"]  # E
data["next", "kl_penalty"]  # E
policy_model(generate="no")  # E
reference_model(path="checkpoints/base")  # E
