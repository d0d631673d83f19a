"""Networks in bfloat16: what they compute, and what of the rest stays float32."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.modules import MLP, Autocast
from torch.utils._python_dispatch import TorchDispatchMode

from specgen.settings import Config
from tests.pipelines.small import losses, optimizers, small_config
from tests.support import LIBRARY, compile_sources, imported, library_records

CONFIG = Config("schemas", "made", "made")
TEXT = """\
specgen: 1
doc: A training.
import: [{imports}]
pipelines:
  Training:
    doc: A training.
    extends: {name}
    precision: bfloat16
"""


def test_a_network_between_numbers_of_full_precision() -> None:
    torch.manual_seed(0)
    plain = MLP(in_features=3, out_features=2, num_cells=[16])
    low, x = Autocast(plain, torch.bfloat16), torch.randn(8, 3, requires_grad=True)
    value = low(x)
    assert value.dtype == torch.float32
    assert torch.equal(value, value.bfloat16().float())
    torch.testing.assert_close(value, plain(x), rtol=0.05, atol=0.05)
    value.sum().backward()
    assert all(
        one.dtype == one.grad.dtype == torch.float32 for one in low.parameters() if one.grad is not None
    )
    with pytest.raises(ValueError, match="floating point"):
        Autocast(plain, torch.int8)


@pytest.mark.parametrize(
    ("name", "imports"),
    [
        ("PPOCartPole", "pipelines/ppo_cartpole, chains/cartpole, losses/ppo"),
        ("SACMountainCar", "pipelines/sac_mountain_car, chains/mountain_car, losses/sac"),
    ],
)
def test_a_training_of_which_only_layers_are_in_bfloat16(name: str, imports: str, tmp_path: Path) -> None:
    text = TEXT.format(imports=", ".join(f"specgen_std/{one}" for one in imports.split(", ")), name=name)
    made = compile_sources({"schemas/a.yaml": text}, CONFIG, gymnasium=library_records(), library=LIBRARY)
    assert [str(item) for item in made.diagnostics] == []
    with imported({path.removeprefix("made/"): text for path, text in made.files.items()}, "made", tmp_path):
        module: Any = importlib.import_module("made.a")
        parts = module.Training(small_config(module))
        with Products() as products:
            batch = next(iter(parts.collector))
            if name == "PPOCartPole":
                parts.estimator(batch)
            (loss,) = losses(parts)
            found = loss(batch.reshape(-1))
        assert products.dtypes == {torch.bfloat16}
        assert {value.dtype for value in found.values()} == {torch.float32}
        if name == "PPOCartPole":
            assert batch["action_log_prob"].dtype == batch["advantage"].dtype == torch.float32
            assert batch["logits"].dtype == torch.float32
        whole = module.train(small_config(module), folder=tmp_path / "whole")
        for optimizer in optimizers(whole).values():
            for one in optimizer.param_groups[0]["params"]:
                assert one.dtype == torch.float32
                assert one.isfinite().all()


class Products(TorchDispatchMode):
    """Takes down the dtypes of all matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("mm", "addmm", "bmm", "baddbmm", "linear"):
            self.dtypes.add(made.dtype)
        return made
