"""`TanhModule`: entries between bounds, as TorchRL's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import TanhModule
from specgen_runtime.specs import Bounded, Composite, Unbounded
from tensordict import TensorDict

OPTIONS: dict[str, dict[str, Any]] = {
    "without bounds": {},
    "numbers": {"low": -2.0, "high": 0.5},
    "one number": {"high": 3.0},
    "tensors": {"low": torch.tensor([-2.0, 0.0]), "high": torch.tensor([1.0, 4.0])},
    "clamped": {"low": -2.0, "high": 2.0, "clamp": True},
}


def test_keys_with_dots() -> None:
    module = TanhModule(["a.b", ("n", "c.d")], low=-2.0, high=2.0)
    made = module(TensorDict({"a.b": torch.ones(3), "n": {"c.d": torch.zeros(3)}}, []))
    assert torch.allclose(made["a.b"], 2 * torch.ones(3).tanh())
    assert torch.equal(made["n", "c.d"], torch.zeros(3))
    assert {"a_b_low", "n_c_d_high"} <= set(module.state_dict())
    with pytest.raises(ValueError, match="names of their own"):
        TanhModule(["a.b", "a_b"])


@pytest.mark.peers
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    "keys", [(["action"], None), (["a", ("b", "c")], [("x", "a"), "c"])], ids=["one", "two"]
)
def test_is_torchrls(option: str, keys: Any) -> None:
    theirs = pytest.importorskip("torchrl.modules").TanhModule
    mine, peer = (kind(*keys, **OPTIONS[option]) for kind in (TanhModule, theirs))
    assert mine.state_dict().keys() == peer.state_dict().keys()
    for scale in (1.0, 30.0):
        values = torch.randn(4, 2) * scale
        data = TensorDict({"action": values, "a": values, "b": {"c": -values}}, [4])
        got, expected = mine(data.clone()), peer(data.clone())
        for key in expected.keys(True, True):
            torch.testing.assert_close(got[key], expected[key], rtol=1e-6, atol=1e-6)


def test_bounds_of_specs() -> None:
    spec = Bounded(torch.tensor([-3.0, 0.0]), torch.tensor([3.0, 1.0]), (2,))
    big = torch.full((5, 2), 100.0)
    for given in (spec, Composite(action=spec)):
        module = TanhModule("action", spec=given)
        assert module(TensorDict(action=big, batch_size=[5]))["action"][0].tolist() == [3.0, 1.0]
        assert module(action=-big)[0].tolist() == [-3.0, 0.0]
    assert TanhModule("action", spec=spec, low=torch.tensor([-3.0, 0.0])).state_dict()[
        "action_low"
    ].tolist() == [-3.0, 0.0]


def test_refused() -> None:
    spec = Bounded(-1.0, 1.0, (2,))
    with pytest.raises(ValueError, match="contradicts the spec"):
        TanhModule("action", spec=spec, high=2.0)
    with pytest.raises(ValueError, match="is above the upper one"):
        TanhModule("action", low=2.0)
    with pytest.raises(ValueError, match="contradicts the spec"):
        TanhModule("action", spec=spec, low=-torch.ones(3))
    for high in (float("inf"), float("nan")):
        with pytest.raises(ValueError, match="finite bounds, got high"):
            TanhModule("action", high=high)
    with pytest.raises(ValueError, match="as many out_keys"):
        TanhModule(["a", "b"], ["c"])
    with pytest.raises(ValueError, match="names of their own"):
        TanhModule(["a", "b"], ["x_y", ("x", "y")])
    with pytest.raises(TypeError, match="Unbounded"):
        TanhModule("action", spec=Unbounded((2,)))
    with pytest.raises(KeyError, match="action"):
        TanhModule("action", spec=Composite(other=spec))
    with pytest.raises(KeyError, match="'action', which is missing"):
        TanhModule("action")(TensorDict(batch_size=[2]))
