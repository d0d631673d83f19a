"""Done flags that stand under `"next"` before a step prevail, and are compared with each other, whatever steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.transforms import TransformedEnv
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.envs.cartpole import CartPole
from specgen_std.transforms import StepCounter

from tests.envs.counting import Scripted

MAKERS: dict[str, Callable[[], EnvBase[Any]]] = {
    "by hand": lambda: Scripted(flags=("done", "terminated", "truncated")),
    "generated": CartPole,
    "chain": CartPoleTrain,
    "transforms": lambda: TransformedEnv(CartPole(), StepCounter(max_steps=100)),
}


def stepped(env: EnvBase[Any], **flags: bool | None) -> tuple[bool, ...]:
    td = env.rand_action(env.reset())
    for name, value in flags.items():
        if value is not None:
            td["next", name] = torch.full((*env.batch_size, 1), value)
    following = env.step(td)["next"]
    return tuple(bool(following[name].any()) for name in ("done", "terminated", "truncated"))


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("terminated", [None, False, True])
def test_what_contradicts_itself_is_refused(maker: str, terminated: bool | None) -> None:
    env = MAKERS[maker]()
    for done, truncated in itertools.product([None, False, True], repeat=2):
        flags = {"done": done, "terminated": terminated, "truncated": truncated}
        wrong = done is not None and truncated is not None and done != bool(terminated or truncated)
        wrong |= done is not None and terminated is True and not done
        if wrong or (terminated is None and done is not None and truncated is not None):
            with pytest.raises(RuntimeError, match=r"contradict each other|without 'terminated'"):
                stepped(env, **flags)
        elif done is not None or terminated is not None or truncated is not None:
            found = stepped(env, **flags)
            assert found[0] == (found[1] or found[2])
            given = zip(flags.values(), found, strict=True)
            assert all(one is None or one == other for one, other in given)
