"""Value estimates as pure functions of tensors, under TorchRL's names.

Tensors have the shape ``[*batch, time, *features]``, all of them the same; ``time_dim`` says where time is. A step
where ``done`` holds is the last of its trajectory, and another one may begin behind it. A step where ``terminated``
holds is done as well, and the state behind it is worth nothing; behind other steps that are done, as truncated ones
are, and behind the last one of the data, the value of the next state counts.

The functions called ``vec_…`` are those without: there is one algorithm (`recurrence.discounted_sums`).
"""

from specgen_runtime.objectives.value.functional.gae import (
    generalized_advantage_estimate,
    multi_agent_generalized_advantage_estimate,
)
from specgen_runtime.objectives.value.functional.n_step import n_step_return_estimate
from specgen_runtime.objectives.value.functional.reward_to_go import reward2go
from specgen_runtime.objectives.value.functional.td0 import td0_advantage_estimate, td0_return_estimate
from specgen_runtime.objectives.value.functional.td_lambda import (
    td1_advantage_estimate,
    td1_return_estimate,
    td_lambda_advantage_estimate,
    td_lambda_return_estimate,
)
from specgen_runtime.objectives.value.functional.vtrace import vtrace_advantage_estimate

vec_generalized_advantage_estimate = generalized_advantage_estimate
vec_td1_return_estimate = td1_return_estimate
vec_td1_advantage_estimate = td1_advantage_estimate
vec_td_lambda_return_estimate = td_lambda_return_estimate
vec_td_lambda_advantage_estimate = td_lambda_advantage_estimate

__all__ = [
    "generalized_advantage_estimate",
    "multi_agent_generalized_advantage_estimate",
    "n_step_return_estimate",
    "reward2go",
    "td0_advantage_estimate",
    "td0_return_estimate",
    "td1_advantage_estimate",
    "td1_return_estimate",
    "td_lambda_advantage_estimate",
    "td_lambda_return_estimate",
    "vec_generalized_advantage_estimate",
    "vec_td1_advantage_estimate",
    "vec_td1_return_estimate",
    "vec_td_lambda_advantage_estimate",
    "vec_td_lambda_return_estimate",
    "vtrace_advantage_estimate",
]
