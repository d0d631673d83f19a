"""A small environment that keeps its state itself, and the same with one fault each."""

from __future__ import annotations

from typing import Any

import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.specs import Bounded, Categorical, Composite, Unbounded
from tensordict import TensorDict


class Walk(EnvBase):
    """A random walk with its own generator; it ends at a distance, or after some steps."""

    def __init__(self, *, batch_size: tuple[int, ...] = (3,), limit: int = 7) -> None:
        super().__init__(batch_size=batch_size)
        self.limit = limit
        self.generator = torch.Generator().manual_seed(int(torch.randint(2**31, ()).item()))
        self.register_buffer("position", torch.zeros(*batch_size, 2))
        self.register_buffer("count", torch.zeros(*batch_size, 1, dtype=torch.int64))
        self.action_spec = Bounded(-1.0, 1.0, shape=(*batch_size, 2))
        self.observation_spec = Composite(
            position=Bounded(-9.0, 9.0, shape=(*batch_size, 2)),
            count=Unbounded(shape=(*batch_size, 1), dtype=torch.int64),
            shape=batch_size,
        )
        self.reward_spec = Unbounded(shape=(*batch_size, 1))
        flag = Categorical(2, shape=(*batch_size, 1), dtype=torch.bool)
        names = ("done", "terminated", "truncated")
        self.full_done_spec = Composite({name: flag.clone() for name in names}, shape=batch_size)

    def draw(self) -> torch.Tensor:
        return torch.rand((*self.batch_size, 2), generator=self.generator) - 0.5

    def observe(self) -> dict[str, torch.Tensor]:
        return {"position": self.position.clone(), "count": self.count.clone()}

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None:
            mask = torch.ones_like(self.count, dtype=torch.bool)
        self.position = torch.where(mask, self.draw(), self.position)
        self.count = torch.where(mask, 0, self.count)
        return TensorDict(self.observe(), batch_size=self.batch_size)

    def _step(self, tensordict: Any) -> TensorDict:
        self.position = (self.position + tensordict["action"] + self.draw()).clamp(-9.0, 9.0)
        self.count = self.count + 1
        far = (self.position.norm(dim=-1, keepdim=True) > 3.0).clone()
        entries = {
            **self.observe(),
            "reward": -self.position.norm(dim=-1, keepdim=True),
            "terminated": far,
            "truncated": self.count >= self.limit,
        }
        return TensorDict(entries, batch_size=self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self.generator.manual_seed(seed)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "generator": self.generator.get_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        generator = torch.Generator()
        generator.set_state(state["generator"])
        super().__setstate__({**state, "generator": generator})


class WrongDtype(Walk):
    def observe(self) -> dict[str, torch.Tensor]:
        return {**super().observe(), "position": self.position.double()}


class WrongShape(Walk):
    def observe(self) -> dict[str, torch.Tensor]:
        return {**super().observe(), "position": self.position[..., :1]}


class MissingKey(Walk):
    def observe(self) -> dict[str, torch.Tensor]:
        return {"position": self.position.clone()}


class UndeclaredKey(Walk):
    def observe(self) -> dict[str, torch.Tensor]:
        return {**super().observe(), "speed": torch.zeros(*self.batch_size, 1)}


class NotANumber(Walk):
    """Only after a while: short checks don't see it."""

    def observe(self) -> dict[str, torch.Tensor]:
        return {**super().observe(), "position": torch.where(self.count >= 5, torch.nan, self.position)}


class OutOfBounds(Walk):
    def observe(self) -> dict[str, torch.Tensor]:
        return {**super().observe(), "position": torch.where(self.count >= 5, 10.0, self.position)}


class IgnoresMasks(Walk):
    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        return super()._reset(None)


class AnyMask(Walk):
    """Takes masks of any shape, as the base would refuse."""

    def reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        mask = None if tensordict is None else tensordict.pop("_reset", None)
        if mask is None or (mask.shape == self.count.shape and mask.dtype is torch.bool):
            return super().reset(tensordict if mask is None else tensordict.set("_reset", mask), **kwargs)
        return tensordict


class LeavesMasks(Walk):
    def reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        result = super().reset(tensordict, **kwargs)
        return result if mask is None else result.set("_reset", mask)


class Unseeded(Walk):
    """Its generator is never seeded."""

    def _set_seed(self, seed: int | None) -> None:
        pass


class GlobalGenerator(Walk):
    """Draws from torch's global generator, whatever its seed is."""

    def draw(self) -> torch.Tensor:
        return torch.rand(*self.batch_size, 2) - 0.5


class SeedsDontMatter(Walk):
    def _set_seed(self, seed: int | None) -> None:
        self.generator.manual_seed(0)


class ForgetsTheSeed(Walk):
    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        super().set_seed(seed, static_seed)
        return None


class OverwritesResults(Walk):
    """Gives its own buffer away and goes on writing into it."""

    def observe(self) -> dict[str, torch.Tensor]:
        return {**super().observe(), "position": self.position}

    def _step(self, tensordict: Any) -> TensorDict:
        kept = self.position
        result = super()._step(tensordict)
        self.position = kept.copy_(self.position)
        return result.set("position", self.position)


class ReadsResultsBack(Walk):
    """Gives its own buffer away and goes on reading from it."""

    def observe(self) -> dict[str, torch.Tensor]:
        return {**super().observe(), "position": self.position}


class WritesIntoTheInput(Walk):
    def _step(self, tensordict: Any) -> TensorDict:
        tensordict["action"].mul_(0.5)
        return super()._step(tensordict)


class DoneInTheRoot(Walk):
    """Its episodes begin done, and it says that this is meant only inside."""

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        result = super().reset(*args, **kwargs)
        return result.set("done", torch.ones_like(result["done"])).set(
            "terminated", torch.ones_like(result["done"])
        )


class ContradictingFlags(Walk):
    def step(self, tensordict: Any) -> Any:
        result = super().step(tensordict)
        result["next", "done"] = torch.zeros_like(result["next", "done"])
        return result


class NeverResets(Walk):
    def step_and_maybe_reset(self, tensordict: Any) -> Any:
        result = self.step(tensordict)
        return result, self.step_mdp(result)


class ChangesItsSpecs(Walk):
    def _step(self, tensordict: Any) -> TensorDict:
        result = super()._step(tensordict)
        self.reward_spec = Bounded(float(result["reward"].min()) - 1, 0.0, shape=(*self.batch_size, 1))
        return result


class OpenSpecs(Walk):
    @property
    def input_spec(self) -> Composite:
        return super().input_spec.clone().unlock_()


class ActionsOutside(Walk):
    def rand_action(self, tensordict: Any = None) -> Any:
        result = super().rand_action(tensordict)
        return result.set("action", result["action"] * 3)


class ActionsInPlaceOfState(Walk):
    def rand_action(self, tensordict: Any = None) -> Any:
        result = super().rand_action(tensordict)
        if "position" in result:
            result["position"] = torch.zeros_like(result["position"]) + 0.1
        return result


class WrongFake(Walk):
    def fake_tensordict(self) -> Any:
        return super().fake_tensordict().set("position", torch.zeros(*self.batch_size, 3))


class IgnoresPresets(Walk):
    def step(self, tensordict: Any) -> Any:
        tensordict.pop("next", None)
        return super().step(tensordict)


class AnyBatch(Walk):
    def step(self, tensordict: Any) -> Any:
        return super().step(tensordict) if tensordict.batch_size == self.batch_size else tensordict


class WrongBatch(Walk):
    def rollout(self, *args: Any, **kwargs: Any) -> Any:
        return super().rollout(*args, **kwargs).transpose(0, -1)


class RolloutOfItsOwn(Walk):
    """Its rollout is not what stepping gives."""

    def rollout(self, *args: Any, **kwargs: Any) -> Any:
        result = super().rollout(*args, **kwargs)
        result["next", "reward"] = result["next", "reward"] * 0.5
        return result


class LosesItsName(Walk):
    def rollout(self, *args: Any, **kwargs: Any) -> Any:
        return super().rollout(*args, **kwargs).rename_(*[None] * (len(self.batch_size) + 1))


class StaysOnItsDevice(Walk):
    def _move_specs(self, device: torch.device) -> None:
        pass


class StateFromUse(Walk):
    """Has a buffer only after its first step."""

    def _step(self, tensordict: Any) -> TensorDict:
        if not hasattr(self, "total"):
            self.register_buffer("total", torch.zeros(()))
        return super()._step(tensordict)


class Unpicklable(Walk):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.handle = lambda: None


class ForgetsInPickles(Walk):
    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.limit = 2


class StaysOpen(Walk):
    def close(self, *, raise_if_closed: bool = True) -> None:
        pass
