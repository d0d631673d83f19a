"""Names that losses have of TorchRL's: keys, keywords, and the order of their outputs, behind which stands what it has not."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest
from specgen_runtime.objectives import ValueEstimators
from specgen_runtime.objectives.replaced_keywords import _INSTEAD

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
