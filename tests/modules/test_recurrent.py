"""LSTM and GRU modules: TorchRL's numbers, in every mode, option and layout of trajectories."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import SerialEnv
from specgen_runtime.modules import (
    GRU,
    LSTM,
    MLP,
    GRUModule,
    LSTMModule,
    get_primers_from_module,
    set_recurrent_mode,
)
from specgen_runtime.transforms import Compose, TensorDictPrimer, TransformedEnv
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms.init_tracker import InitTracker
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn

KINDS = {"LSTM": LSTMModule, "GRU": GRUModule}
SIZES = (3, 5)


def keys(kind: str) -> dict[str, list[Any]]:
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    return {"in_keys": ["x", *states], "out_keys": ["y", *(("next", state) for state in states)]}


def make(kind: str, **options: Any) -> LSTMModule | GRUModule:
    torch.manual_seed(0)
    return KINDS[kind](*SIZES, **keys(kind), **options)


def torchrl(kind: str, **options: Any) -> nn.Module:
    rnn = pytest.importorskip("torchrl.modules.tensordict_module.rnn")
    torch.manual_seed(0)
    module: nn.Module = getattr(rnn, f"{kind}Module")(*SIZES, **keys(kind), **options)
    return module


def sequences(*batch: int, layers: int = 1, sizes: tuple[int, ...] = (5, 5), ends: float = 0.3) -> TensorDict:
    """Rows of steps whose trajectories end at random, with stored states."""
    torch.manual_seed(1)
    data = TensorDict({"x": torch.randn(*batch, 3)}, batch)
    for name, size in zip("hc", sizes, strict=False):
        data[name] = torch.randn(*batch, layers, size)
    data["is_init"] = torch.rand(*batch, 1) < ends
    return data


def compare(mine: nn.Module, theirs: nn.Module, data: TensorDictBase, tolerance: float = 1e-6) -> None:
    made = []
    for module in (mine, theirs):
        out = module(data.clone())
        loss = out["y"].square().sum() + sum(v.pow(3).sum() for v in out["next"].values())
        made.append((out, torch.autograd.grad(loss, list(module.parameters()))))
    (out, grads), (expected, expected_grads) = made
    assert set(out.keys(True, True)) == set(expected.keys(True, True))
    states = list(out["next"].keys())
    for key in ("y", *(("next", name) for name in states)):
        torch.testing.assert_close(out[key], expected[key], rtol=tolerance, atol=tolerance)
    for grad, wanted in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(grad, wanted, rtol=1e-4, atol=1e-4)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "two layers": {"num_layers": 2},
    "no bias": {"bias": False},
    "both directions": {"bidirectional": True},
    "projected": {"proj_size": 2},
    "by steps": {"python_based": True, "num_layers": 2},
    "scan": {"recurrent_backend": "scan"},
    "auto": {"recurrent_backend": "auto", "num_layers": 2},
}
LAYOUTS: dict[str, tuple[tuple[int, ...], float]] = {
    "one row": ((6,), 0.4),
    "rows": ((4, 7), 0.3),
    "more dimensions": ((2, 3, 7), 0.3),
    "whole rows": ((4, 7), 0.0),
    "all steps begin": ((4, 7), 1.0),
    "one step": ((4, 1), 0.5),
}


@pytest.mark.peers
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sequences_are_torchrls(kind: str, option: str, layout: str) -> None:
    options = OPTIONS[option]
    if kind == "GRU" and "proj_size" in options:
        pytest.skip("GRUs have no projections")
    batch, ends = LAYOUTS[layout]
    layers = options.get("num_layers", 1) * (2 if "bidirectional" in options else 1)
    sizes = (options.get("proj_size", 5), 5)[: 2 if kind == "LSTM" else 1]
    data = sequences(*batch, layers=layers, sizes=sizes, ends=ends)
    theirs = {k: v for k, v in options.items() if k != "recurrent_backend"}  # all its backends agree
    with set_recurrent_mode(True), theirs_in_recurrent_mode():
        compare(make(kind, **options), torchrl(kind, **theirs), data)
        states = ["h", "c"][: len(sizes)]
        compare(make(kind, **options), torchrl(kind, **theirs), data.exclude(*states))


def theirs_in_recurrent_mode() -> Any:
    return pytest.importorskip("torchrl.modules").set_recurrent_mode(True)


@pytest.mark.peers
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)], ids=str)
def test_single_steps_are_torchrls(kind: str, option: str, batch: tuple[int, ...]) -> None:
    options = OPTIONS[option]
    if kind == "GRU" and "proj_size" in options:
        pytest.skip("GRUs have no projections")
    layers = options.get("num_layers", 1) * (2 if "bidirectional" in options else 1)
    sizes = (options.get("proj_size", 5), 5)[: 2 if kind == "LSTM" else 1]
    data = sequences(*batch, layers=layers, sizes=sizes, ends=0.5)
    theirs = {k: v for k, v in options.items() if k != "recurrent_backend"}
    if "proj_size" in options:  # TorchRL masks both states with zeros of the shape of the first
        with pytest.raises(RuntimeError, match="must match the size"):
            torchrl(kind, **theirs)(data.clone())
        data["is_init"] = torch.zeros_like(data["is_init"])
        data = data.exclude("h", "c")
    compare(make(kind, **options), torchrl(kind, **theirs), data)


@pytest.mark.peers
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_torchrls(kind: str) -> None:
    mine, theirs = make(kind, num_layers=2), torchrl(kind, num_layers=2)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    theirs.load_state_dict(mine.state_dict())
    assert mine.in_keys == theirs.in_keys
    assert mine.out_keys == theirs.out_keys


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"python_based": True}, {"recurrent_backend": "scan"}], ids=str)
def test_a_sequence_is_its_steps(kind: str, options: dict[str, Any]) -> None:
    """Each trajectory within a row is what single steps give from the state stored at its start."""
    module = make(kind, num_layers=2, **options).double()
    data = sequences(3, 9, layers=2).double()
    data["is_init"] = data["is_init"].bool()
    states = module.in_keys[1:-1]
    with set_recurrent_mode(True):
        out = module(data.clone())
    now: dict[Any, Tensor] = {}
    for t in range(9):
        step = data[:, t].clone()
        begins = step["is_init"].unsqueeze(-1) | (t == 0)
        for key in states:
            step[key] = torch.where(begins, step[key], now.get(key, step[key]))
        step["is_init"] = torch.zeros_like(step["is_init"])  # or they would begin at zero
        step = module(step)
        now = {key: step["next", key] for key in states}
        torch.testing.assert_close(out["y"][:, t], step["y"])
        last = torch.ones(3, 1, 1, dtype=torch.bool) if t == 8 else data["is_init"][:, t + 1].unsqueeze(-1)
        for key in states:
            torch.testing.assert_close(
                out["next", key][:, t], torch.where(last, now[key], torch.zeros_like(now[key]))
            )


@pytest.mark.parametrize("kind", KINDS)
def test_compiles_whole(kind: str) -> None:
    module = make(kind, num_layers=2)
    data = sequences(3, 4, layers=2)

    def run(x: Tensor, h: Tensor, c: Tensor, is_init: Tensor) -> Tensor:
        states = {"h": h, "c": c} if kind == "LSTM" else {"h": h}
        with set_recurrent_mode(True):
            out: Tensor = module(TensorDict({"x": x, "is_init": is_init, **states}, [3, 4]))["y"]
        return out

    inputs = (data["x"], data["h"], data["c"], data["is_init"])
    compiled = torch.compile(run, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*inputs), run(*inputs))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("python_based", [True, False])
def test_maps_over_stacked_parameters(kind: str, python_based: bool) -> None:
    modules = [make(kind, python_based=python_based) for _ in range(3)]
    for i, module in enumerate(modules):
        torch.manual_seed(i)
        for p in module.parameters():
            nn.init.normal_(p)
    data = sequences(4, 6)
    params = TensorDict.from_modules(*modules, as_module=False)
    template = make(kind, python_based=python_based)

    def run(parameters: TensorDictBase) -> Tensor:
        with parameters.to_module(template), set_recurrent_mode(True):
            out: Tensor = template(data.clone())["y"]
        return out

    with set_recurrent_mode(True):
        alone = torch.stack([module(data.clone())["y"] for module in modules])
    torch.testing.assert_close(torch.vmap(run)(params), alone)


@pytest.mark.parametrize("kind", KINDS)
def test_networks_by_steps_are_torchs(kind: str) -> None:
    mine, theirs = {"LSTM": (LSTM, nn.LSTM), "GRU": (GRU, nn.GRU)}[kind]
    for batch_first in (True, False):
        torch.manual_seed(0)
        a = mine(3, 5, num_layers=2, batch_first=batch_first)
        b = theirs(3, 5, num_layers=2, batch_first=batch_first)
        b.load_state_dict(a.state_dict())
        x, h = torch.randn(4, 6, 3), torch.randn(2, 4 if batch_first else 6, 5)
        hx: Any = (h, h) if kind == "LSTM" else h
        for given in (None, hx):
            torch.testing.assert_close(a(x, given), b(x, given))
    with pytest.raises(ValueError, match=r"three dimensions, got shape \(4, 3\)"):
        a(torch.zeros(4, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_what_computes_can_be_changed(kind: str) -> None:
    module = make(kind, num_layers=2)
    data = sequences(4, layers=2)
    before = module(data.clone())["y"]
    parameters = list(module.parameters())
    by_steps = module.make_python_based()
    assert by_steps is module
    assert module.python_based
    torch.testing.assert_close(module(data.clone())["y"], before)
    module.make_cudnn_based()
    assert not module.python_based
    torch.testing.assert_close(module(data.clone())["y"], before)
    assert all(a is b for a, b in zip(module.parameters(), parameters, strict=True))


def policy(kind: str) -> TensorDictSequential:
    torch.manual_seed(0)
    module = KINDS[kind](3, 5, num_layers=2, in_key="observation", out_key="features")
    head = TensorDictModule(MLP(5, 1), in_keys=["features"], out_keys=["action"])
    return TensorDictSequential(module, head)


@pytest.mark.parametrize("kind", KINDS)
def test_rollouts_and_sequences_agree(kind: str) -> None:
    actor = policy(kind)
    env = TransformedEnv(SerialEnv(3, Pendulum), InitTracker())
    env = env.append_transform(actor[0].make_tensordict_primer())
    env.set_seed(0)
    with torch.no_grad():
        data = env.rollout(8, actor, break_when_any_done=False)
        again = data.exclude("features", "action")
        with set_recurrent_mode(True):
            actor(again)
    assert data["is_init"][:, 0].all()
    torch.testing.assert_close(again["action"], data["action"])
    torch.testing.assert_close(again["features"], data["features"])


def test_primers() -> None:
    actor = policy("LSTM")
    primer = get_primers_from_module(actor)
    assert isinstance(primer, TensorDictPrimer)
    assert {key: tuple(spec.shape) for key, spec in primer.primers.items()} == {
        "recurrent_state_h": (2, 5),
        "recurrent_state_c": (2, 5),
    }
    two = TensorDictSequential(make("LSTM"), make("GRU"))
    assert isinstance(get_primers_from_module(two), Compose)
    with pytest.warns(UserWarning, match="no module within the Linear makes primers"):
        assert get_primers_from_module(nn.Linear(1, 1)) is None
    double = make("LSTM", proj_size=2).double().make_tensordict_primer().primers
    assert (double["h"].dtype, tuple(double["h"].shape), tuple(double["c"].shape)) == (
        torch.float64,
        (1, 2),
        (1, 5),
    )
    lost = LSTMModule(3, 5, in_keys=["x", "h", "c"], out_keys=["y", "h", "c"])
    with pytest.raises(ValueError, match="written under 'next'"):
        lost.make_tensordict_primer()


def test_keys() -> None:
    module = LSTMModule(3, 5, in_key=("a", "x"), out_key=("a", "y"), default_recurrent_mode=True)
    assert module.in_keys == [("a", "x"), "recurrent_state_h", "recurrent_state_c", "is_init"]
    assert module.out_keys == [("a", "y"), ("next", "recurrent_state_h"), ("next", "recurrent_state_c")]
    assert module.recurrent_mode
    with set_recurrent_mode(False):
        assert not module.recurrent_mode
    begins = GRUModule(3, 5, in_keys=["x", "h", ("a", "begins")], out_keys=["y", ("next", "h")])
    data = TensorDict({"x": torch.randn(2, 3), "a": {"begins": torch.ones(2, dtype=torch.bool)}}, [2])
    assert begins(data)["y"].shape == (2, 5)


def test_plain_tensors() -> None:
    module = make("LSTM")
    x, h, begins = torch.randn(4, 3), torch.randn(4, 1, 5), torch.zeros(4, 1, dtype=torch.bool)
    y, h1, c1 = module(x, h, h, begins)
    before = h.transpose(0, 1)
    wanted, (wanted_h, wanted_c) = module.rnn(x.unsqueeze(1), (before, before))
    torch.testing.assert_close((y, h1), (wanted[:, 0], wanted_h.transpose(0, 1)))
    torch.testing.assert_close(c1, wanted_c.transpose(0, 1))


def test_a_network_that_exists() -> None:
    lstm = nn.LSTM(3, 5, batch_first=True)
    assert LSTMModule(lstm=lstm, in_key="x", out_key="y").lstm is lstm
    with pytest.raises(ValueError, match="has its sizes"):
        LSTMModule(3, lstm=lstm, in_key="x", out_key="y")
    with pytest.raises(ValueError, match="must have batch_first=True"):
        LSTMModule(lstm=nn.LSTM(3, 5), in_key="x", out_key="y")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_key": "x"}, "either out_key or out_keys"),
        ({"in_key": "x", "in_keys": ["x", "h", "c"], "out_key": "y"}, "either in_key or in_keys"),
        ({"in_keys": ["x", "h"], "out_key": "y"}, "reads a value, 2 states and is_init"),
        ({"in_key": "x", "out_keys": ["y", "h"]}, "writes a value and 2 states"),
        ({"in_key": "x", "out_key": "y", "recurrent_backend": "triton"}, "'auto', 'pad' or 'scan'"),
        ({"in_key": "x", "out_key": "y", "batch_first": False}, "batch_first must be True"),
        ({"in_key": "x", "out_key": "y", "hidden_size": None}, "needs input_size and hidden_size"),
        ({"in_key": "x", "out_key": "y", "python_based": True, "bidirectional": True}, "in one direction"),
    ],
)
def test_refuses_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LSTMModule(**{"input_size": 3, "hidden_size": 5, **options})


def test_keys_are_lists() -> None:
    for options in ({"in_keys": "xhc", "out_key": "y"}, {"in_key": "x", "out_keys": "yhc"}):
        with pytest.raises(TypeError, match="in_keys and out_keys of LSTMModule are lists"):
            LSTMModule(3, 5, **options)


def test_refuses_data() -> None:
    module = make("LSTM")
    with pytest.raises(KeyError, match="the input 'x' is not in the tensordict"):
        module(TensorDict({"is_init": torch.zeros(2, 1, dtype=torch.bool)}, [2]))
    with pytest.raises(KeyError, match="is_init 'is_init' is not in the tensordict"):
        module(TensorDict({"x": torch.zeros(2, 3)}, [2]))
    data = sequences(2)
    with pytest.raises(KeyError, match="the state 'c' is not in the tensordict"):
        module(data.exclude("c"))
    with pytest.raises(ValueError, match=r"the state 'h' must have the batch \(2,\) and 2 more"):
        module(data.clone().set("h", torch.zeros(2, 5)))
    with pytest.raises(ValueError, match=r"is_init 'is_init' must have shape \(2,\) or \(2, 1\)"):
        module(data.clone().set("is_init", torch.zeros(2, 2, dtype=torch.bool)))
    with set_recurrent_mode(True), pytest.raises(ValueError, match="needs time as its last batch dimension"):
        module(data[0])
    both = make("LSTM", bidirectional=True, recurrent_backend="scan")
    with set_recurrent_mode(True), pytest.raises(ValueError, match="bidirectional=False"):
        both(sequences(2, 3, layers=2))


@pytest.mark.parametrize("kind", [GRUModule, LSTMModule])
def test_agents_have_states_of_their_own(kind: Any) -> None:
    """Steps and sequences of a group are those of each agent by itself, trajectories that begin within rows included."""
    states = kind._states
    keys = {
        "in_keys": ["x", *states, "is_init"],
        "out_keys": ["y", *(("next", state) for state in states)],
    }
    torch.manual_seed(0)
    group, alone = kind(3, 4, agents=2, **keys), kind(3, 4, **keys)
    alone.load_state_dict(group.state_dict())
    entries = {state: torch.randn(5, 6, 2, 1, 4) for state in states}
    starts = torch.rand(5, 6, 1) < 0.3
    data = TensorDict({"x": torch.randn(5, 6, 2, 3), "is_init": starts, **entries}, [5, 6])
    written = ["y", *(("next", state) for state in states)]
    for sequences in (False, True):
        with set_recurrent_mode(sequences):
            found = group(data.clone())
            for agent in range(2):
                mine = {key: data[key][:, :, agent] for key in ("x", *states)}
                expected = alone(TensorDict({**mine, "is_init": starts}, [5, 6]))
                for key in written:
                    torch.testing.assert_close(found[key][:, :, agent], expected[key])
    primed = group.make_tensordict_primer()
    assert primed is not None
    with pytest.raises(ValueError, match="must have the batch"):
        group(data.clone().set("x", torch.randn(5, 6, 3, 3)))


@pytest.mark.parametrize(
    ("agents", "error"), [("two", TypeError), (1.5, TypeError), (True, TypeError), (0, ValueError)]
)
def test_agents_are_a_number(agents: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="agents of GRUModule must be"):
        GRUModule(3, 4, in_key="x", out_key="y", agents=agents)
