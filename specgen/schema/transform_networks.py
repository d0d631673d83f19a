"""The field `networks:` of a transform: modules of its constructor, which expressions call."""

from __future__ import annotations

from pydantic import Field

from specgen.schema.fields import Declaration


class CalledNetwork(Declaration):
    """A network that the user passes, and that expressions call with tensors.

    Attributes:
        in_: the roles whose types its arguments have (`in`), in order.
        out: the type of what it returns for one row; named sizes that no role has are the network's own.
        frozen: whether it stays as it is: in evaluation mode, without gradients, not among the parameters.
        doc: one line for the generated docstring.
    """

    in_: list[str] = Field(alias="in")
    out: str
    frozen: bool = False
    doc: str = ""
