"""`term_alone`: one term of a loss and what is computed with it, without the rest."""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.objectives.common import LossModule


def term_alone(loss: LossModule, term: str, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
    """A term, reduced, and the metrics of its part; other parts are not computed, whatever is selected.

    Args:
        loss: the loss.
        term: the name of the term.
        tensordict: the data; what the loss writes with this part is written.

    Raises:
        KeyError: if something that the part reads is missing.
        ValueError: if the parameters of the loss leave the term out.
    """
    if term not in loss.out_keys_source:
        raise ValueError(f"{type(loss).__name__}: there is no {term!r} with its parameters")
    part = next((one.outputs for one in loss.parts.values() if term in one.outputs), None)
    with loss._selected(*(name for name in loss.out_keys_source if part is None or name in part)):
        outputs = loss.forward(tensordict)
    metrics = {name: value for name, value in outputs.items() if not name.startswith("loss")}
    return outputs[term], metrics
