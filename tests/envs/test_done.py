"""The rules of done flags and of partial resets."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from tensordict import TensorDict

from tests.envs.counting import Counting, Grid, Scripted, Stateful

T, F = torch.tensor([True]), torch.tensor([False])
ALL = ("done", "terminated", "truncated")


@pytest.mark.parametrize(
    ("flags", "given", "expected"),
    [
        (ALL, {}, (F, F, F)),
        (ALL, {"done": T}, (T, T, F)),
        (ALL, {"terminated": T}, (T, T, F)),
        (ALL, {"truncated": T}, (T, F, T)),  # TorchRL leaves done False (E5)
        (ALL, {"terminated": F, "truncated": T}, (T, F, T)),
        (ALL, {"terminated": T, "truncated": T}, (T, T, T)),
        (ALL, {"done": T, "terminated": F}, (T, F, T)),
        (ALL, {"done": T, "terminated": T}, (T, T, F)),
        (ALL, {"done": T, "terminated": F, "truncated": T}, (T, F, T)),
        (("done",), {"done": T}, (T, T, None)),
        (("done",), {"terminated": T}, (T, T, None)),
        (("terminated",), {}, (F, F, None)),
        (("done", "terminated"), {"done": T, "terminated": F}, (T, F, None)),
    ],
)
def test_missing_flags_follow_from_the_given(
    flags: tuple[str, ...], given: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    following = Scripted(flags=flags, next=given).rand_step()["next"]
    for name, value in zip(ALL, expected, strict=True):
        if value is None:
            assert name not in following.keys(True)
        else:
            assert torch.equal(following[name], value), name
            assert following[name].dtype is torch.bool


@pytest.mark.parametrize(
    ("flags", "given", "message"),
    [
        (ALL, {"terminated": T, "done": F, "truncated": F}, r"'done' is not 'terminated' \| 'truncated'"),
        (ALL, {"terminated": F, "done": T, "truncated": F}, "contradict"),
        (("done", "terminated"), {"terminated": T, "done": F}, "'terminated' is True where 'done' is False"),
        (ALL, {"done": T, "truncated": T}, "without 'terminated'"),
    ],
)
def test_contradicting_flags_are_refused(flags: tuple[str, ...], given: dict[str, Any], message: str) -> None:
    # TorchRL accepts the first (E6).
    with pytest.raises(RuntimeError, match=message):
        Scripted(flags=flags, next=given).rand_step()


def test_only_truncated_ends_a_rollout() -> None:
    # E5: neither stopped nor reset in TorchRL.
    env = Scripted(next={"truncated": T})
    assert env.rollout(10).batch_size == (1,)
    data = env.rollout(4, break_when_any_done=False)
    assert data["next", "done"].all()
    assert not data["done"].any()


def test_nested_sets_are_completed_each() -> None:
    following = Grid(batch_size=(3,), limit=1).rand_step()["next"]
    assert following["agents", "done"].shape == (3, 2, 1)
    assert following["agents", "done"].all()
    assert following["done"].all()


@pytest.mark.parametrize("batch_size", [(1,), (3,), (4, 3)])
def test_a_partial_reset_keeps_all_other_rows(batch_size: tuple[int, ...]) -> None:
    env = Counting(batch_size=batch_size, limit=100)
    td = env.rollout(3)[..., -1]["next"].exclude("reward")
    td["mine"] = torch.arange(td.numel()).reshape(batch_size)
    td["observation"] = td["observation"] + 0.5  # even values that no reset could give
    before = td.clone()
    mask = torch.zeros(*batch_size, 1, dtype=torch.bool)
    mask[(0,) * len(batch_size)] = True
    td["_reset"] = mask
    assert env.reset(td) is td
    assert "_reset" not in td.keys(True)
    rows = mask.squeeze(-1)
    assert (td["count"][rows] == 0).all()
    assert torch.equal(td["mine"], before["mine"])
    for key in before.keys(True):
        assert torch.equal(td[key][~rows], before[key][~rows])


def test_a_mask_without_rows_resets_nothing() -> None:
    env = Counting(batch_size=(3,))
    td = env.step_mdp(env.rand_step())
    before = td.clone()
    td["_reset"] = torch.zeros(3, 1, dtype=torch.bool)
    env.reset(td)
    assert (td == before).all()


def test_unbatched_masks() -> None:
    env = Counting()
    td = env.step_mdp(env.rand_step())
    assert env.reset(td.clone().set("_reset", torch.tensor([False])))["count"].item() == 1
    assert env.reset(td.clone().set("_reset", torch.tensor([True])))["count"].item() == 0


@pytest.mark.parametrize(
    "mask",
    [torch.tensor([True, False]), torch.ones(2, 2, dtype=torch.bool), torch.ones(2, 1)],
)
def test_a_mask_of_the_wrong_shape_or_dtype_is_refused(mask: torch.Tensor) -> None:
    # TorchRL broadcasts the first into observations of shape [2, 2] (E14).
    env = Counting(batch_size=(2,))
    td = env.reset()
    td["_reset"] = mask
    with pytest.raises(RuntimeError, match=r"'_reset' must be torch.bool of shape \[2, 1\]"):
        env.reset(td)


def test_a_partial_reset_needs_the_other_rows() -> None:
    env = Counting(batch_size=(2,))
    td = TensorDict({"_reset": torch.tensor([[True], [False]])}, batch_size=(2,))
    with pytest.raises(KeyError, match="partial reset keeps the rows"):
        env.reset(td)


def test_rows_that_are_done_may_stay_so() -> None:
    env = Counting(batch_size=(2,), limit=1)
    td = env.step_mdp(env.rand_step())
    td["_reset"] = torch.tensor([[True], [False]])
    env.reset(td)
    assert td["done"].flatten().tolist() == [False, True]


def test_the_rootmost_set_decides() -> None:
    env = Grid(batch_size=(2,), limit=1)
    td = env.step_mdp(env.rand_step())
    td["_reset"] = torch.tensor([[True], [False]])
    td["agents", "_reset"] = torch.ones(2, 2, 1, dtype=torch.bool)
    env.reset(td)
    assert td["agents", "observation"].flatten(1).amax(-1).tolist() == [0, 1]
    assert td["agents", "done"].flatten(1).any(-1).tolist() == [False, True]
    assert ("agents", "_reset") not in td.keys(True)


def test_a_nested_mask_alone_is_refused_under_a_root_set() -> None:
    env = Grid(batch_size=(2,))
    td = env.reset()
    td["agents", "_reset"] = torch.ones(2, 2, 1, dtype=torch.bool)
    with pytest.raises(RuntimeError, match="without '_reset', which decides"):
        env.reset(td)


def test_nested_sets_without_a_root_reset_agent_by_agent() -> None:
    env = Grid(batch_size=(2,), root_done=False, limit=100)
    td = env.step_mdp(env.rand_step())
    mask = torch.zeros(2, 2, 1, dtype=torch.bool)
    mask[0, 1] = True
    td["agents", "_reset"] = mask
    env.reset(td)
    assert td["agents", "observation"][..., 0].tolist() == [[1, 0], [1, 1]]
    assert td["time"].flatten().tolist() == [0, 1]


def test_an_environment_that_ignores_masks_is_found() -> None:
    # TorchRL masks the output and leaves the state wrong, unnoticed (E15).
    check_env_specs(Stateful())
    with pytest.raises(AssertionError, match="'observation': _reset ignores its '_reset' mask"):
        check_env_specs(Stateful(careless=True))


class TestOtherNames:
    """Flags of other names are further ways to end."""

    FLAGS = ("fell", "won")

    @pytest.mark.parametrize(
        ("flags", "given", "expected"),
        [
            (FLAGS, {}, (F, F, None)),
            (FLAGS, {"fell": T}, (T, T, None)),
            (FLAGS, {"won": T, "fell": F}, (T, T, None)),
            ((*FLAGS, "truncated"), {"truncated": T}, (T, F, T)),
            ((*FLAGS, "truncated"), {"won": T}, (T, T, F)),
            ((*FLAGS, *ALL), {"won": T, "terminated": F}, (T, F, F)),
            ((*FLAGS, *ALL), {"done": T, "terminated": F, "won": F}, (T, F, T)),
            ((*FLAGS, *ALL), {"done": T, "terminated": F, "won": T}, (T, F, F)),
        ],
    )
    def test_missing_flags_follow(
        self, flags: tuple[str, ...], given: dict[str, Any], expected: tuple[Any, ...]
    ) -> None:
        following = Scripted(flags=flags, next=given).rand_step()["next"]
        for name, value in zip(ALL, expected, strict=True):
            assert (
                (following.get(name, None) is None) if value is None else torch.equal(following[name], value)
            ), name
        for name in self.FLAGS:
            assert torch.equal(following[name], given.get(name, F))

    def test_they_end_rollouts(self) -> None:
        env = Scripted(flags=("fell",), next={"fell": T})
        assert set(env.done_keys) == {"fell", "done", "terminated"}
        assert (env.done_key, env.reset_keys) == ("done", ["_reset"])
        assert env.rollout(3).batch_size == (1,)
        data = env.rollout(3, break_when_any_done=False)
        assert data.batch_size == (3,)
        assert data["next", "fell"].all()
        assert not data["fell"].any()

    def test_they_may_not_contradict(self) -> None:
        with pytest.raises(
            RuntimeError, match=r"'done' is not 'terminated' \| 'truncated' \| 'fell' \| 'won'"
        ):
            Scripted(flags=(*ALL, *self.FLAGS), next=dict.fromkeys(ALL, F) | {"won": T}).rand_step()
        with pytest.raises(RuntimeError, match=r"'done' is not 'terminated' \| 'fell' \| 'won'"):
            Scripted(flags=self.FLAGS, next={"done": F, "won": T}).rand_step()
