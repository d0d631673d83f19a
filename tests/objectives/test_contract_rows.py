"""What the contract of losses asks of every one of the library: those that are added join by being there."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import LossModule, ValueEstimators
from tensordict import TensorDict
from torch import Tensor, nn

from tests.objectives import every_loss
from tests.objectives.every_loss import (
    CERTAIN,
    KEYWORDS,
    OF_TOKENS,
    batch,
    losses,
    made,
    networks,
    total,
)
from tests.objectives.language_models import VOCABULARY

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")

OF_TENSORS = {"RNDLoss"}
"""Those whose networks are modules of tensors, alike and left as they are, and whose samples are drawn."""
every = pytest.mark.parametrize("cls", [pytest.param(cls, id=name) for name, cls in losses().items()])


def outputs(loss: Any, data: TensorDict) -> TensorDict:
    """What a loss returns, with the same draws each time."""
    torch.manual_seed(5)
    out: TensorDict = loss(data)
    return out


def build(cls: type[LossModule], keywords: dict[str, Any]) -> Any:
    return made(cls, **keywords)


def takes(cls: type[LossModule], keyword: str) -> bool:
    return keyword in inspect.signature(cls).parameters


@every
def test_evaluation_reaches_the_dropout_of_networks(
    cls: type[LossModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the networks are children of the loss or not."""

    def layers(inputs: int, out: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(inputs, 8), nn.Dropout(), nn.Linear(8, out))

    def token_layers() -> nn.Sequential:
        return nn.Sequential(nn.Embedding(VOCABULARY, 8), nn.Dropout(), nn.Linear(8, VOCABULARY))

    monkeypatch.setattr(every_loss, "layers", layers)
    monkeypatch.setattr(every_loss, "token_layers", token_layers)
    dropout, seen = nn.functional.dropout, list[bool]()

    def watched(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        seen.append(training)
        return dropout(x, p, training, inplace)

    monkeypatch.setattr(nn.functional, "dropout", watched)
    for functional in (True, False) if takes(cls, "functional") else (None,):
        loss = made(cls, **({} if functional is None else {"functional": functional}))
        loss.eval()
        loss(batch(cls.__name__, 6))
        assert seen
        assert not any(seen)
        loss.train()
        seen.clear()
        loss(batch(cls.__name__, 6))
        assert any(seen)
        seen.clear()


@every
def test_networks_in_another_order_are_refused(cls: type[LossModule]) -> None:
    """By the constructor where a policy has a distribution, else by the entry that a network does not write."""
    names = networks(cls)
    given = list(names.values())
    if len(given) < 2 or cls.__name__ in OF_TENSORS:
        pytest.skip("one network has no order, and networks of one kind have none")
    keywords = KEYWORDS.get(cls.__name__, {})
    if cls.__name__ in CERTAIN or "actor_network" not in names:
        with pytest.raises(KeyError, match=r"value_network (does not write|is to read|reads)"):
            cls(*reversed(given), **keywords)(batch(cls.__name__, 6))
    else:
        with pytest.raises(TypeError, match=r"`actor_network` is a policy.*Are the networks in their order"):
            cls(*reversed(given), **keywords)


@every
def test_what_is_no_network_is_named(cls: type[LossModule]) -> None:
    """`DQNLoss` and its like make a policy of a module of scores."""
    for name in networks(cls):
        given: dict[str, Any] = {**networks(cls), name: 3}
        with pytest.raises(
            TypeError, match=f"({name}|network of action values) must be an nn.Module.*int|{name}.*int"
        ):
            cls(*given.values(), **KEYWORDS.get(cls.__name__, {}))
        of_scores = ("local_value_network", "qvalue_network", "value_network")
        scores = next((one for one in of_scores if one in given), None)
        discrete = {*every_loss.DISCRETE, "BranchingDQNLoss", "QMixerLoss"}
        if cls.__name__ in OF_TENSORS or (cls.__name__ in discrete and name == scores):
            continue
        given[name] = nn.Linear(every_loss.N_OBS, 1)
        with pytest.raises(TypeError, match=f"{name}.*Linear"):
            cls(*given.values(), **KEYWORDS.get(cls.__name__, {}))(batch(cls.__name__, 6))


@pytest.mark.parametrize(
    ("name", "keywords", "message"),
    [
        ("ClipPPOLoss", {"clip_epsilon": -1}, "clip_epsilon must be >= 0, got -1"),
        ("SACLoss", {"num_qvalue_nets": 0}, "num_qvalue_nets must be >= 1, got 0"),
        ("SACLoss", {"num_qvalue_nets": 2.5}, "num_qvalue_nets must be an integer, got 2.5"),
        ("SACLoss", {"target_entropy": "foo"}, "target_entropy is a number or 'auto', got 'foo'"),
        ("SACLoss", {"min_alpha": 2.0, "max_alpha": 1.0}, "max_alpha must be >= min_alpha"),
        ("REDQLoss", {"sub_sample_len": 11}, "sub_sample_len <= num_qvalue_nets"),
        ("IQLLoss", {"expectile": 1.5}, "expectile must be <= 1, got 1.5"),
        ("DQNLoss", {"double_dqn": True, "delay_value": False}, "double_dqn=True needs delay_value=True"),
        ("DQNLoss", {"action_space": None}, "the action space is not known"),
        ("TD3Loss", {"bounds": None}, "takes one of action_spec and bounds, but not both or none"),
    ],
)
def test_numbers_that_make_no_loss_are_refused_when_it_is_made(
    name: str, keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError if "must be an integer" in message else ValueError, match=message):
        made(losses()[name], **keywords)


@every
def test_words_are_checked_when_a_loss_is_made(cls: type[LossModule]) -> None:
    """Not at its first call."""
    checked = [
        name
        for name in ("loss_function", "loss_critic_type", "reduction", "scalar_output_mode", "aggregation")
        if takes(cls, name)
    ]
    for name in [*checked, "use_prioritized_weights"]:
        with pytest.raises(ValueError, match=f"{name} must be .*got 'zzz'"):
            build(cls, {name: "zzz"})
    with pytest.raises(TypeError, match="unexpected keyword argument 'nope'"):
        made(cls, nope=1)
    with pytest.raises(ValueError, match=r"does not accept 'nope'\. Accepted keys are: "):
        made(cls).set_keys(nope="x")


@every
@pytest.mark.parametrize("keyword", ["gamma", "priority_key", "advantage_key", "value_target_key"])
def test_keywords_that_were_replaced_say_by_what(cls: type[LossModule], keyword: str) -> None:
    if takes(cls, keyword):
        assert build(cls, {keyword: 0.5}).gamma == 0.5
        return
    with pytest.raises(TypeError, match=f"{cls.__name__} takes no {keyword}: use "):
        build(cls, {keyword: "x"})


@every
def test_estimators_have_the_defaults_and_others_are_refused(cls: type[LossModule]) -> None:
    supported = cls.supported_value_estimators
    for kind in supported or ():
        loss = made(cls)
        estimator = loss.make_value_estimator(kind).value_estimator
        assert loss.value_type is kind
        assert estimator.differentiable
        assert estimator.gamma.item() == pytest.approx(0.99)
        assert getattr(estimator, "lmbda", torch.tensor(0.95)).item() == pytest.approx(0.95)
        out = outputs(loss, batch(cls.__name__, 2, 5))
        assert all(value.isfinite().all() for value in out.values())
        with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\], got -1"):
            loss.make_value_estimator(kind, gamma=-1)
    for kind in set(ValueEstimators) - set(supported or ()):
        reason = (
            "has no value estimator" if supported is None else f"does not support {kind.name}; it supports "
        )
        with pytest.raises(NotImplementedError, match=f"{cls.__name__} {reason}"):
            made(cls).make_value_estimator(kind)
    if supported is None:
        with pytest.raises(NotImplementedError, match=f"{cls.__name__} has no value estimator"):
            made(cls).make_value_estimator()


@every
def test_stateful_networks_compute_what_the_loss_does(cls: type[LossModule]) -> None:
    """A copy is a policy where its original is, and goes back with the targets."""
    if cls.__name__ in OF_TENSORS:
        pytest.skip("its networks stay as they are")
    loss, given = made(cls), networks(cls)
    for name in given:
        net = loss.get_stateful_net(name)
        assert hasattr(net, "get_dist") == hasattr(given[name], "get_dist")
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(1)
        loss.from_stateful_net(name, net)
        tensors = [getattr(loss, f"{kind}{name}_params") for kind in ("", "target_")]
        assert tensors[1] is getattr(loss, f"{name}_target_params") or loss.functional
        for one in tensors if loss.functional else ():
            for key, value in TensorDict.from_module(net).items(True, True):
                torch.testing.assert_close(one.get(key).data, value.data)
        if not loss.functional:
            assert tensors == [None, None]


@every
def test_reductions_are_of_what_is_not_reduced(cls: type[LossModule]) -> None:
    if cls.__name__ in OF_TOKENS:
        pytest.skip("their terms are means of sequences, see test_reduce.py")
    if cls.__name__ in OF_TENSORS:
        pytest.skip("other samples are drawn in each call, see test_rnd.py")
    out = {
        name: outputs(made(cls, reduction=name), batch(cls.__name__, 6)) for name in ("none", "mean", "sum")
    }
    assert outputs(made(cls, reduction=None), batch(cls.__name__, 6)).keys() == out["mean"].keys()
    for key, mean in out["mean"].items():
        if key.startswith("loss"):
            each = out["none"][key]
            assert each.shape[:1] == (6,)
            assert mean.shape == ()
            torch.testing.assert_close(each.mean(), mean)
            torch.testing.assert_close(each.sum(), out["sum"][key])


@every
def test_networks_that_stay_children_compute_the_same(cls: type[LossModule]) -> None:
    if not takes(cls, "functional"):
        pytest.skip("its parameters are always apart")
    apart, inside = made(cls, functional=True), made(cls, functional=False)
    assert not [name for name, _ in inside.named_parameters() if "_params" in name]
    assert len(list(apart.parameters())) == len(list(inside.parameters()))
    data = batch(cls.__name__, 6)
    for loss in (apart, inside):
        total(outputs(loss, data.clone())).backward()  # type: ignore[no-untyped-call]
    own = dict(inside.named_parameters())
    for name, parameter in apart.named_parameters():
        torch.testing.assert_close(parameter.grad, own[name.replace("_params.", ".")].grad, msg=name)
    for key, value in outputs(apart, data.clone()).items():
        torch.testing.assert_close(outputs(inside, data.clone())[key], value, msg=key)


@every
def test_a_priority_that_has_no_place_is_named(cls: type[LossModule]) -> None:
    loss, data = made(cls), batch(cls.__name__, 6)
    priority = getattr(loss.tensor_keys, "priority", None)
    if priority is None:
        before = set(data.keys(True, True))
        loss(data.lock_())
        assert set(data.keys(True, True)) == before
        return
    with pytest.raises(
        RuntimeError, match=f"{cls.__name__} writes '{priority}' into the tensordict, which is locked"
    ):
        loss(data.clone().lock_())
    data[priority] = torch.full((6, 1), -1.0)
    loss(data.lock_())
    assert (data[priority] >= 0).all()


@every
def test_what_a_network_reads_is_named_where_it_is_missing(cls: type[LossModule]) -> None:
    if cls.__name__ in OF_TENSORS:
        pytest.skip("its networks read one tensor, which the loss names, see test_rnd.py")
    loss = made(cls)
    key = loss._networks[next(iter(networks(cls)))].in_keys[0]
    with pytest.raises(KeyError, match=str(key if isinstance(key, str) else key[-1])):
        loss(batch(cls.__name__, 6).exclude(key))


@pytest.mark.parametrize(("mode", "equal"), [("same", True), ("different", False)])
def test_members_draw_as_vmap_randomness_says(
    mode: Any, equal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        every_loss,
        "layers",
        lambda inputs, out: nn.Sequential(nn.Linear(inputs, 64), nn.Dropout(), nn.Linear(64, out)),
    )
    loss = made(losses()["SACLoss"])
    params = loss.qvalue_network_params
    with torch.no_grad():
        for value in params.values(True, True):
            value[1].copy_(value[0])
    loss.vmap_randomness = mode
    data = batch("SACLoss", 6)
    values = loss.functional_network("qvalue_network").live(
        data, "state_action_value", randomness=loss.vmap_randomness
    )
    assert torch.equal(values[0], values[1]) == equal
    loss.vmap_randomness = "error"
    with pytest.raises(RuntimeError, match="random"):
        loss(data)


def test_members_of_constant_parameters_are_equal_and_modules_of_their_own_are_not() -> None:
    """Parameters are drawn between the least and the greatest of those given, as TorchRL documents."""

    class Bare(LossModule):
        pass

    def net(value: float) -> nn.Linear:
        layer = nn.Linear(2, 1)
        nn.init.constant_(layer.weight, value)
        return layer

    loss: Any = Bare()
    loss.convert_to_functional(net(0.5), "drawn", expand_dim=2)
    loss.convert_to_functional([net(0.5), net(0.25)], "given", expand_dim=2)
    assert (loss.drawn_params["weight"] == 0.5).all()
    assert loss.given_params["weight"][:, 0, 0].tolist() == [0.5, 0.25]


def test_a_mask_of_samples_is_that_of_each_of_their_agents() -> None:
    loss, data = made(losses()["IPPOLoss"], normalize_advantage=False), batch("IPPOLoss", 6)
    mask = torch.tensor([True, False, True, True, False, True])
    expected = outputs(loss, data[mask])
    data["advantage"][~mask] = 1e3
    data["valid"] = mask
    loss.loss_mask_key = "valid"
    for key, value in outputs(loss, data).items():
        torch.testing.assert_close(value, expected[key], msg=key)
    loss.loss_mask_key = None
    assert not torch.allclose(outputs(loss, data)["loss_objective"], expected["loss_objective"])
