"""Names that losses have of TorchRL's: keys, keywords, and the order of their outputs, behind which stands what it has not."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import ValueEstimators
from specgen_runtime.objectives.replaced_keywords import _INSTEAD
from torch import nn

from tests.objectives.every_loss import KEYWORDS, losses, made, networks

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

OTHER_NAMES = {"next.state_value": "next_state_value"}
"""What is called otherwise here (docs/differences.md)."""


def peer_of(name: str) -> Any:
    theirs: Any = getattr(pytest.importorskip("torchrl.objectives"), name, None)
    if theirs is None:
        pytest.skip("of language models: another place")
    return theirs


@pytest.mark.peers
@pytest.mark.parametrize("name", sorted(losses()))
def test_order(name: str) -> None:
    theirs = peer_of(name)
    loss = losses()[name]
    known = inspect.signature(theirs.__init__).parameters
    keywords: dict[str, Any] = {"clip_value": 0.2} if "clip_value" in known else {}
    keywords |= {"with_lagrange": True} if "with_lagrange" in known else {}
    given = {**KEYWORDS.get(name, {}), **keywords}
    peer = theirs(**networks(loss), **given)
    wanted = [OTHER_NAMES.get(key, key) for key in getattr(peer, "out_keys", ["loss"])]
    mine = made(loss, **keywords)
    assert list(mine.out_keys)[: len(wanted)] == wanted


@pytest.mark.peers
@pytest.mark.parametrize("name", sorted(losses()))
def test_keys(name: str) -> None:
    """Those that nothing reads are accepted, too."""
    wanted = {one.name: one.default for one in dataclasses.fields(peer_of(name)._AcceptedKeys)}
    loss = made(losses()[name])
    found = vars(loss.tensor_keys)
    assert wanted.keys() <= found.keys()
    for key, default in wanted.items():
        assert default in (None, found[key]), key
        loss.set_keys(**{key: ("some", "where")})
        assert getattr(loss.tensor_keys, key) == ("some", "where")


@pytest.mark.peers
@pytest.mark.parametrize("name", sorted(losses()))
def test_default_keys(name: str) -> None:
    """A class, whose attributes are the keys; `set_keys` does not change them."""
    theirs = peer_of(name).default_keys
    mine = losses()[name].default_keys
    loss = made(losses()[name])
    for one in dataclasses.fields(theirs):
        assert getattr(theirs, one.name) in (None, getattr(mine, one.name)), one.name
        loss.set_keys(**{one.name: "elsewhere"})
    assert loss.default_keys is mine
    assert vars(mine()) == {one.name: one.default for one in dataclasses.fields(mine)}


TEMPERATURES = ("SACLoss", "DiscreteSACLoss", "REDQLoss", "CrossQLoss", "CQLLoss", "OnlineDTLoss")


@pytest.mark.peers
@pytest.mark.parametrize("name", TEMPERATURES)
def test_temperatures_are_attributes(name: str) -> None:
    theirs = peer_of(name)(**networks(losses()[name]), **KEYWORDS.get(name, {}), max_alpha=2.0)
    loss = made(losses()[name], max_alpha=2.0)
    for value in (-1.0, 1.0):
        for one in (theirs, loss):
            one.log_alpha.data.fill_(value)
        wanted = theirs.alpha if hasattr(theirs, "alpha") else theirs._alpha
        torch.testing.assert_close(loss.alpha, wanted)
        torch.testing.assert_close(loss.alpha, torch.tensor(min(math.exp(value), 2.0)))
    assert not loss.alpha.requires_grad


@pytest.mark.peers
@pytest.mark.parametrize("name", sorted(losses()))
def test_states_of_losses_that_were_never_called(name: str) -> None:
    """TorchRL's have no value estimator then."""
    theirs = peer_of(name)(**networks(losses()[name], 3), **KEYWORDS.get(name, {}))
    state = {key: value for key, value in theirs.state_dict().items() if value is not None}
    loss, other = made(losses()[name]), made(losses()[name])
    estimates = loss.default_value_estimator is not None
    if estimates:
        assert not any("_value_estimator" in key for key in state)
        loss.make_value_estimator(gamma=0.5)
    absent = loss.load_state_dict(state, strict=False).missing_keys
    assert not any("_value_estimator" in key for key in absent)
    if estimates:
        assert loss.value_estimator.gamma == 0.5
        nn.ModuleList([other]).load_state_dict(
            {f"0.{key}": value for key, value in loss.state_dict().items()}
        )
        assert other.value_estimator.gamma == 0.5


@pytest.mark.peers
@pytest.mark.parametrize("name", sorted(losses()))
def test_which_networks_have_targets(name: str) -> None:
    """Attributes such as `delay_actor`, also of losses that take no keyword for it."""
    peer = peer_of(name)(**networks(losses()[name]), **KEYWORDS.get(name, {}))
    loss = made(losses()[name])
    wanted = {key: value for key, value in vars(peer).items() if key.startswith("delay_")}
    assert {key: getattr(loss, key) for key in wanted} == wanted
    assert not hasattr(loss, "delay_nothing")


@pytest.mark.peers
def test_members_of_the_enumeration_of_estimators() -> None:
    for kind in pytest.importorskip("torchrl.objectives").ValueEstimators:
        loss = made(losses()["PPOLoss"]).make_value_estimator(kind, gamma=0.5)
        assert loss.value_type is ValueEstimators[kind.name]
        assert loss.value_estimator.gamma == 0.5
    with pytest.raises(NotImplementedError, match="DQNLoss does not support GAE"):
        made(losses()["DQNLoss"]).make_value_estimator(kind.__class__.GAE)


NOT_TAKEN = {
    "REDQLoss": {"gSDE"},
}
"""Keywords that are not there yet, as docs/losses.md says."""


@pytest.mark.peers
@pytest.mark.parametrize("name", sorted(losses()))
def test_keywords(name: str) -> None:
    theirs = {
        key
        for key, one in inspect.signature(peer_of(name).__init__).parameters.items()
        if one.kind is not one.VAR_KEYWORD
    }
    mine = inspect.signature(losses()[name].__init__).parameters.keys()  # type: ignore[misc]
    assert theirs - mine - _INSTEAD.keys() == NOT_TAKEN.get(name, set())
