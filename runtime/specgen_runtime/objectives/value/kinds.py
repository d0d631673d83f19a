"""The names of the value estimators."""

from __future__ import annotations

from enum import Enum


class ValueEstimators(Enum):
    """Which value estimator a loss uses; `LossModule.make_value_estimator` takes a member or its name."""

    TD0 = "one-step bootstrapped return"
    TD1 = "infinite-step return"
    TDLambda = "lambda return"
    GAE = "generalised advantage estimate"
    MAGAE = "generalised advantage estimate for several agents"
    VTrace = "V-trace"

    @classmethod
    def named(cls, name: str) -> ValueEstimators:
        """The member called ``name``, in any case.

        Raises:
            ValueError: if there is none.
        """
        for member in cls:
            if member.name.lower() == name.lower():
                return member
        raise ValueError(
            f"unknown value estimator {name!r}; there are {', '.join(member.name for member in cls)}"
        )
