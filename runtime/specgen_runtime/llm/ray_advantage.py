"""`RayMCAdvantage`: groups of trajectories that processes of a Ray cluster fill together."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

from tensordict import TensorDictBase

from specgen_runtime.llm.advantage import MCAdvantage
from specgen_runtime.services import ActorOptions, RayService, described

__all__ = ["RayMCAdvantage"]


class RayMCAdvantage(MCAdvantage):
    """An `MCAdvantage` whose trajectories and counts are in an actor of a Ray cluster, where all who use it share them.

    Whoever brings the last trajectory of a group gets the group. Objects that are given the same `actor_name` use the
    same actor, and so does a copy of one that has a name. `close` ends an actor without a name; with one others may use
    it, and `service.kill()` ends it.

    Args:
        grpo_size: of `MCAdvantage`, as `args` and `keywords`.
        args: further arguments of `MCAdvantage`.
        actor: `actor_name`, `num_cpus`, `lifetime` and `timeout` of the actor; see `ActorOptions`.
        keywords: further keywords of `MCAdvantage`.

    Attributes:
        service: the actor.

    Raises:
        ImportError: Ray is not installed.
        ValueError: as `MCAdvantage`; or the actor of that name has other arguments.
        TimeoutError: the actor did not start, or did not answer, in time.
        RuntimeError: it is gone.
    """

    service: RayService

    def __init__(self, grpo_size: int, *args: Any, **keywords: Any) -> None:
        actor = {name: keywords.pop(name) for name in ActorOptions.__annotations__ if name in keywords}
        super().__init__(grpo_size, *args, **keywords)  # what is wrong is said before anything starts
        if actor.pop("replicas", 1) != 1:
            raise ValueError("replicas: a group is in one actor")
        create = partial(MCAdvantage, grpo_size, *args, **keywords)
        self.service = RayService(
            create, what="RayMCAdvantage", settings={"arguments": described(create)}, **actor
        )

    @property
    def is_shared(self) -> bool:
        """Whether others can fill the same groups: always."""
        return True

    def share_memory_(self) -> Self:
        """Do nothing: what is shared is in the actor."""
        return self

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        full: TensorDictBase = self.service.call("inv", tensordict)
        device = tensordict.device
        return full if full is None or device is None else full.to(device)

    def get_stats(self) -> dict[str, float]:
        """Counts of the actor; see `MCAdvantage.get_stats`."""
        stats: dict[str, float] = self.service.call("get_stats")
        return stats

    def reset_stats(self) -> None:
        """Count from zero again."""
        if "service" in self.__dict__:
            self.service.call("reset_stats")
        else:
            super().reset_stats()

    def clear_queues(self) -> None:
        """Forget the trajectories that are held back."""
        self.service.call("clear_queues")

    def get_extra_state(self) -> dict[str, Any]:
        """The trajectories that the actor holds back, and the counts, as plain values."""
        state: dict[str, Any] = self.service.call("get_extra_state")
        return state

    def set_extra_state(self, state: Any) -> None:
        """Let the actor hold back what another transform held back, and count on."""
        self.service.call("set_extra_state", state)

    def close(self) -> None:
        """Use the actor no more; one without a name ends."""
        self.service.close()
