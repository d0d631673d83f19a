"""Roles and outputs may be called as the variables of generated methods are: these are told apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum
from tensordict import TensorDict

from specgen.plan.transforms.text import METHOD_VARIABLES
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
transforms:
  Several:
    params: {rate: {type: "float[...]", default: 0.5}}
    in:
      ROLE: {each: [observation], type: "float32[..., n]"}
      role2: {each: [th], with: ROLE, type: "float32[]"}
      role3: {key: thdot, type: "float32[]"}
    out:
      OUT: {each: ROLE, name: out}
      out2: {each: ROLE, name: out2, type: like(ROLE)}
      out3: {key: out3}
      out4: {each: role2, name: out4, type: "float32[]"}
    carry: [OUT, out4]
    reset:
      OUT: ROLE + uniform(0, 1, like=ROLE)
      out4: 0.0 * role2 + uniform(0, 1, like=role2)
    step:
      next.OUT: OUT + next.ROLE
      next.out4: out4 + n + next.role3
    map:
      out2: rate * ROLE + OUT
      out3: stack(role2, role3, out4)
  Moved:
    in: {ROLE: {each: [observation], type: "float32[...]"}}
    out: {OUT: {each: ROLE, name: moved, type: like(ROLE)}}
    map: {OUT: 2 * ROLE}
  Joined:
    in: {ROLE: {all: [th, thdot], type: "float32[...]"}, one: {all: [observation], but: ROLE, type: "float32[...]"}}
    out: {OUT: {key: joined}, both: {key: both}}
    map: {OUT: "concat(*ROLE)", both: "concat(*one)"}
  Learning:
    in: {ROLE: {each: [observation], type: "float32[...]"}}
    out: {OUT: {each: ROLE, name: learned, type: like(ROLE)}}
    buffers: {total: {each: ROLE, type: "float64[...]", init: 0.0}}
    update: {next.total: total + batch_sum(ROLE)}
    map: {OUT: float32(ROLE + total)}
  Given:
    in: {ROLE: {each: [action], type: "float32[..., n] in bounded", inverse: true}}
    out: {OUT: {each: ROLE, name: pushed, type: "like((ROLE - low(ROLE)) / (high(ROLE) - low(ROLE)))"}}
    inverse: {ROLE: "low(ROLE) + clip(OUT + uniform(0, 0.1, like=OUT), 0, 1) * (high(ROLE) - low(ROLE))"}
  Chosen:
    in: {ROLE: {each: [action], type: "float32[..., n]", inverse: true}}
    out: {OUT: {each: ROLE, name: chosen, type: "categorical(3)[..., n]"}}
    inverse: {ROLE: "float32(OUT) - 1"}
  Scaled:
    in: {ROLE: {each: [action], type: "float32[...]", inverse: true}}
    out: {OUT: {each: ROLE, name: scaled, type: "like(ROLE / 2)"}}
    inverse: {ROLE: 2 * OUT}
  Skipped:
    in: {ROLE: {each: [reward], type: "float32[...]"}, OUT: {key: th, type: "float32[]"}}
    around: {repeat: 3, fold: {ROLE: acc.ROLE + next.ROLE}, until: abs(next.OUT) > 3}
  Collected:
    allow: [SG324]
    in: {ROLE: {each: [th], type: "float32[...]"}}
    out: {OUT: {each: ROLE, name: all_of_them}, taken: {key: taken, type: "int64[]"}}
    around: {repeat: 2, collect: {OUT: next.ROLE}, taken: taken}
  Acting:
    allow: [SG324]
    in: {ROLE: {each: [action], type: "float32[...]", inverse: true}}
    out: {OUT: {each: ROLE, name: pushes, type: like(ROLE)}}
    around: {repeat: 2, action: {ROLE: "clip(OUT, -2, 2) / (1 + nth)"}}
  Recurring:
    in: {ROLE: {each: [reward], type: "float32[...]"}, value: {key: value, type: "float32[...ROLE]"}}
    out: {OUT: {each: ROLE, name: to_go}}
    offline:
      start: {OUT: 0.0}
      step: {OUT: next.ROLE + 0.9 * acc.OUT}
      open: {OUT: next.value}
"""
NEUTRAL = "input_", "output_"
SEVERAL = (
    "Several",
    "Joined",
    "Learning",
    "Given",
    "Chosen",
    "Scaled",
    "Skipped",
    "Collected",
    "Acting",
    "Moved",
)
KEYS = {"Given": "pushed", "Chosen": "chosen", "Scaled": "scaled", "Acting": "pushes"}


def recorded(package: str, role: str, out: str, folder: Path) -> list[TensorDict]:
    """What the transforms of the schema do under these names: rollouts, and a recursion over data."""
    text = re.sub(r"\bROLE\b", role, re.sub(r"\bOUT\b", out, SCHEMA))
    found = []
    with imported(generate({"all.yaml": text}, package), package, folder) as made:
        for name in SEVERAL:
            checked, env = (
                TransformedEnv(Pendulum(batch_size=(2,)), Compose(getattr(made, name)())) for _ in range(2)
            )
            check_env_specs(checked)
            env.set_seed(1)
            data = env.rollout(4, lambda td, env=env: td.update(env.full_action_spec.zero()))
            found.append(data.exclude("_carry", ("next", "_carry")))
        rewards = torch.arange(6.0).reshape(2, 3, 1)
        done = torch.zeros(2, 3, 1, dtype=torch.bool)
        ends = {"reward": rewards, "done": done, "value": torch.ones(2, 3, 1)}
        data = TensorDict({"done": done, "next": ends}, [2, 3], names=["rows", "time"])
        found.append(made.Recurring(in_keys=["reward"])(data))
    return found


@pytest.fixture(scope="module")
def neutral(tmp_path_factory: pytest.TempPathFactory) -> list[TensorDict]:
    return recorded("neutral_names", *NEUTRAL, tmp_path_factory.mktemp("neutral"))


NAMES = sorted(METHOD_VARIABLES)


@pytest.mark.parametrize(("role", "out"), zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True))
def test_a_role_and_an_output_called_as_variables(
    role: str, out: str, neutral: list[TensorDict], tmp_path: Path
) -> None:
    """Each variable is the name of a role once and once that of an output."""
    found = recorded(f"{role}_and_{out}", role, out, tmp_path)
    for one, other in zip(found, neutral, strict=True):
        assert_identical(one, other, f"{role} and {out}")
