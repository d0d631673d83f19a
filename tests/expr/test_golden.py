"""The printed text of the expressions in the language's manual: as a careful person would write it."""

from __future__ import annotations

import pytest

from specgen.expr import ANYTHING, Function, Interval, Type
from tests.expr.printing import to_torch
from tests.expr.scopes import FRAMES, GRID, NORM, PENDULUM, binding, bound, dim
from tests.expr.texts import typed

PENDULUM_TEXTS = {
    "clip(action[0], -2, 2)": "torch.clamp(action[..., 0], -2.0, 2.0)",
    "(th + pi) % (2 * pi) - pi": "(th + math.pi) % (2 * math.pi) - math.pi",
    "-(angle**2 + 0.1 * thdot**2 + 0.001 * u**2)": "-(angle ** 2 + 0.1 * thdot ** 2 + 0.001 * u ** 2)",
    "clip(thdot + (3 * g / (2 * l) * sin(th) + 3 / (m * l**2) * u) * dt, -8, 8)": (
        "torch.clamp(thdot + (3 * params.g / (2 * params.l) * torch.sin(th)"
        " + 3 / (params.m * params.l ** 2) * u) * params.dt, -8.0, 8.0)"
    ),
    "th + next.thdot * dt": "th + next_thdot * params.dt",
    "stack(cos(th), sin(th), thdot)": "torch.stack((torch.cos(th), torch.sin(th), thdot), dim=-1)",
    "uniform(-pi, pi)": "-math.pi + 2 * math.pi * draw",
    "uniform(-1, 1)": "-1 + 2 * draw",
    "uniform(0, 0.05)": "0.05 * draw",
    "uniform(0, 1)": "draw",
    "uniform(g, 2 * g)": "params.g + (2 * params.g - params.g) * draw",
    "normal(0, 1) + normal(th, 0.1)": "draw + (th + 0.1 * draw_2)",
    "bernoulli(0.5)": "draw < 0.5",
    "randint(0, i + 1)": "((i + 1) * draw).to(torch.int64)",
    "th - (u - angle)": "th - (u - angle)",
    "th - u - angle": "th - u - angle",
    "(th < u) == (u < angle)": "(th < u) == (u < angle)",
    "-1 < th <= 1": "(-1 < th) & (th <= 1)",
    "not (th > 0 and u > 0) or th == 2": "~((th > 0) & (u > 0)) | (th == 2)",
    "(-th)**2 - 2**-th": "(-th) ** 2 - 2 ** -th",
    "(-2)**th - -2**th": "(-2) ** th - -2 ** th",
    "th - -size(A) + - -2": "th - -4 + 2",
    "abs(- -2.5) * th": "abs(-(-2.5)) * th",
    "3 / th": "torch.div(3, th)",
    "2 / th + 1 / th": "torch.div(2, th) + 1 / th",
    "th * i": "th * i.to(torch.float32)",
    "i + 0.5": "i.to(torch.float32) + 0.5",
    "i / 2": "i.to(torch.float32) / 2",
    "i // 2 + i % 2": "i // 2 + i % 2",
    "x64 + th": "x64 + th.to(torch.float64)",
    "th * dt64": "th.to(torch.float64) * params.dt64",
    "float32(x64)": "x64.to(torch.float32)",
    "sin(g) * th": "math.sin(params.g) * th",
    "max(g, 1) * th": "max(params.g, 1) * th",
    "max(th, 1)": "torch.clamp(th, min=1.0)",
    "min(th, u, 1, g)": "torch.clamp(torch.minimum(th, u), max=min(1.0, params.g))",
    "where(done, 0, reward)": "torch.where(done, 0.0, reward)",
    "where(done, th, reward)": "torch.where(done.squeeze(-1), th, reward.squeeze(-1))",
    "where(done, v, 0)": "torch.where(done, v, 0.0)",
    "where(done, A, 0)": "torch.where(done.unsqueeze(-1), A, 0.0)",
    "where(flag, th, 0)": "th if params.flag else torch.zeros_like(th)",
    "where(True, th, u)": "th",
    "where(i > 0, x64, 1)": "torch.where(i > 0, x64, 1.0)",
    "where(i > 0, 1.0, 0.0)": "(i > 0).to(torch.float32)",
    "where(done, 0, 1) * th": "(~done).to(torch.int64).to(torch.float32).squeeze(-1) * th",
    "where(i > 0, 3, 1)": "torch.where(i > 0, 3, 1)",
    "where(i > 0, g, -1)": "torch.where(i > 0, params.g, torch.full_like(i, -1.0, dtype=torch.float32))",
    "where(i > 0, 0.5, 0)": "torch.where(i > 0, 0.5, torch.zeros_like(i, dtype=torch.float32))",
    "where(v > 0, g, -g)": "torch.where(v > 0, params.g, torch.full_like(v, -params.g))",
    "v * th": "v * th.unsqueeze(-1)",
    "A * th": "A * th[..., None, None]",
    "A * v[:, None]": "A * v.unsqueeze(-1)",
    "v @ A": "(v.unsqueeze(-2) @ A).squeeze(-2)",
    "dot(v, v)": "(v * v).sum(dim=-1)",
    "sum(A)": "A.sum(dim=(-2, -1))",
    "sum(A, axis=0)": "A.sum(dim=-2)",
    "max(A, axis=1)": "A.amax(dim=-1)",
    "prod(A)": "A.flatten(-2, -1).prod(dim=-1)",
    "norm(v)": "vector_norm(v, dim=-1)",
    "A[1:, None, ::2]": "A[..., 1:, None, ::2]",
    "v[clip(i, 0, 2)]": "torch.gather(v, -1, torch.clamp(i, 0, 2).unsqueeze(-1)).squeeze(-1)",
    "v[arange(2)]": "v[..., torch.arange(2, dtype=torch.int64, device=v.device)]",
    "gather(v, clip(i, 0, 2))": ("torch.gather(v, -1, torch.clamp(i, 0, 2).unsqueeze(-1)).squeeze(-1)"),
    "A[:, clip(i, 0, 3)]": (
        "torch.gather(A, -1, torch.clamp(i, 0, 3)[..., None, None].expand(*i.shape, 3, 1)).squeeze(-1)"
    ),
    "A[clip(i, 0, 2), 1:]": (
        "torch.gather(A[..., 1:], -2, torch.clamp(i, 0, 2)[..., None, None].expand(*i.shape, 1, 3)).squeeze(-2)"
    ),
    "A[:, argsort(v)]": (
        "torch.gather(A, -1, v.argsort(dim=-1, stable=True)[..., None, :].expand(*v.shape[:-1], 3, -1))"
    ),
    "A[:, arange(2)]": "A[..., torch.arange(2, dtype=torch.int64, device=A.device)]",
    "cumsum(v)": "v.cumsum(dim=-1)",
    "cumprod(A, axis=0)": "A.cumprod(dim=-2)",
    "sort(A)": "A.sort(dim=-1).values",
    "argsort(A, axis=0)": "A.argsort(dim=-2, stable=True)",
    "softmax(v)": "v.softmax(dim=-1)",
    "softmax(pixels)": "pixels.to(torch.float32).softmax(dim=-1)",
    "logsumexp(A)": "A.logsumexp(dim=(-2, -1))",
    "var(v)": "v.var(dim=-1, correction=0)",
    "std(A, axis=0, correction=1)": "A.std(dim=-2, correction=1)",
    "sigmoid(th)": "expit(th)",
    "expm1(th)": "torch.expm1(th)",
    "log_softmax(pixels)": "pixels.to(torch.float32).log_softmax(dim=-1)",
    "softplus(th)": "torch.nn.functional.softplus(th, threshold=40.0)",
    "softplus(g) * th": "(max(params.g, 0.0) + math.log1p(math.exp(-abs(params.g)))) * th",
    "log_sigmoid(th)": "torch.nn.functional.logsigmoid(th)",
    "log_sigmoid(g) * th": "(min(params.g, 0.0) - math.log1p(math.exp(-abs(params.g)))) * th",
    "sigmoid(g) * th": "(0.5 + 0.5 * math.tanh(0.5 * params.g)) * th",
    "reshape(A, -1)": "A.flatten(-2, -1)",
    "reshape(A, (2, -1))": "torch.unflatten(A.flatten(-2, -1), -1, (2, 6))",
    "reshape(v, (1, 3))": "torch.unflatten(v, -1, (1, 3))",
    "permute(A)": "A.transpose(-2, -1)",
    "permute(outer(v, v)[:, :, None], (2, 0, 1))": (
        "(v.unsqueeze(-1) * v.unsqueeze(-2)).unsqueeze(-1).movedim((-1, -3, -2), (-3, -2, -1))"
    ),
    "flip(A, axis=1)": "A.flip(-1)",
    "roll(A, -1, axis=0)": "A.roll(-1, dims=-2)",
    "exponential(1)": "-torch.log1p(-draw)",
    "exponential(2)": "2 * -torch.log1p(-draw)",
    "exponential(square(th), shape=3)": "torch.square(th).unsqueeze(-1) * -torch.log1p(-draw)",
    "categorical(softmax(A))": "categorical_quantile(A.softmax(dim=-1), draw)",
    "categorical(softmax(v), shape=(2,))": "categorical_quantile(v.softmax(dim=-1)[..., None, :], draw)",
    "poisson(square(th))": "poisson_quantile(torch.square(th).to(torch.float64), draw)",
    "permutation(4)": "draw.argsort(dim=-1, stable=True)",
    "v[permutation(3)]": "torch.gather(v, -1, draw.argsort(dim=-1, stable=True))",
    "one_hot(i, 6)": "torch.nn.functional.one_hot(i, 6)",
    "stack(th, 0, g)": "torch.stack((th, torch.zeros_like(th), torch.full_like(th, params.g)), dim=-1)",
    "stack(v, th, axis=-1)": "torch.stack((v, th.unsqueeze(-1).expand(*th.shape, 3)), dim=-1)",
    "concat(v, zeros(2))": (
        "torch.cat((v, torch.zeros((2,), dtype=torch.float32, device=v.device).expand(*v.shape[:-1], 2)), dim=-1)"
    ),
    "tile(v, 2)": "v.tile((2,))",
    "narrow(A, 1, 2, axis=1)": "A[..., 1:3]",
    "stop_grad(th)": "th.detach()",
    "size(A, 1) * th": "4 * th",
}


@pytest.mark.parametrize("text", PENDULUM_TEXTS)
def test_pendulum(text: str) -> None:
    assert to_torch(typed(text, PENDULUM)) == PENDULUM_TEXTS[text]


GRID_STEPS = (
    (
        "want",
        "clip(pos + moves[agents.action], 0, size - 1)",
        "torch.clamp(pos + moves[agents_action], 0, 4)",
    ),
    (
        "same",
        "all(want[:, None, :] == want[None, :, :], axis=-1)",
        "(want[..., None, :] == want[..., None, :, :]).all(dim=-1)",
    ),
    ("clash", "sum(same, axis=1) > 1", "same.sum(dim=-1) > 1"),
    (
        "stay",
        "walls[want[:, 0], want[:, 1]] or clash",
        "torch.gather(walls.flatten(-2), -1, want[..., 0] * 5 + want[..., 1]) | clash",
    ),
    ("next.pos", "where(stay[:, None], pos, want)", "torch.where(stay.unsqueeze(-1), pos, want)"),
    ("agents.terminated", "all(next.pos == goal, axis=-1)", "(next_pos == goal).all(dim=-1)"),
    (
        "agents.reward",
        "where(agents.terminated, bonus, -cost)",
        "torch.where(agents_terminated, params.bonus, (-cost).unsqueeze(-1))",
    ),
    ("terminated", "all(agents.terminated)", "agents_terminated.all(dim=-1)"),
    (
        "agents.observation",
        "concat(pos, goal, axis=-1) / (size - 1)",
        "torch.cat((pos, goal), dim=-1).to(torch.float32) / 4",
    ),
    ("cand", "pos[:, None, :] + moves[None, :, :]", "pos[..., None, :] + moves[None, :, :]"),
    ("inside", "all((cand >= 0) and (cand < size), axis=-1)", "((cand >= 0) & (cand < 5)).all(dim=-1)"),
    ("c", "clip(cand, 0, size - 1)", "torch.clamp(cand, 0, 4)"),
    (
        "agents.action_mask",
        "inside and not walls[c[:, :, 0], c[:, :, 1]]",
        "inside & ~torch.unflatten(torch.gather(walls.flatten(-2), -1, (c[..., 0] * 5 + c[..., 1]).flatten(-2)), "
        "-1, (3, 5))",
    ),
)


def test_grid_world() -> None:
    scope = dict(GRID)
    for name, text, printed in GRID_STEPS:
        node = typed(text, scope)
        assert to_torch(node) == printed
        scope[name] = binding(name.replace(".", "_"), node.type, node.interval)
    assert scope["agents.observation"].type == Type("float32", (3, 4))
    assert scope["agents.observation"].interval == Interval(0.0, 1.0)
    assert scope["agents.action_mask"].type == Type("bool", (3, 5))
    node = typed("where(agents.terminated, bonus, -cost)", scope)
    assert to_torch(node, cast="float32", dims=(3,), col=True).endswith(
        "(-cost).unsqueeze(-1)).unsqueeze(-1)"
    )


def test_grid_world_draws() -> None:
    node = typed("randint(0, size, shape=(n, 2))", GRID, draw_prefix="draw_pos")
    (site,) = node.draws
    assert (site.name, site.kind, site.dims, site.low, site.high) == ("draw_pos", "randint", (3, 2), 0, 5)
    assert to_torch(node) == "draw_pos"
    node = typed("uniform(0, 1, shape=(size, size)) < 0.1", GRID, draw_prefix="draw_walls")
    assert to_torch(node) == "draw_walls < 0.1"
    assert node.type == Type("bool", (5, 5))


def test_a_float64_target_draws_float64() -> None:
    (site,) = typed("uniform(-0.05, 0.05)", {}, dtype="float64").draws
    assert site.dtype == "float64"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (
            "where(padding == same, frame, full_like(frame, padding_value))",
            'frame if params.padding == "same" else torch.full_like(frame, params.padding_value)',
        ),
        (
            "concat(tile(pad, N - 1, axis=dim), frame, axis=dim)",
            "torch.cat((pad,) * (params.N - 1) + (frame,), dim=params.dim)",
        ),
        (
            "concat(narrow(stack, start=size(frame, dim), axis=dim), next.frame, axis=dim)",
            "torch.cat((stack.narrow(params.dim, frame.shape[params.dim],"
            " stack.shape[params.dim] - frame.shape[params.dim]), next_frame), dim=params.dim)",
        ),
    ],
)
def test_cat_frames_of_unknown_rank(text: str, printed: str) -> None:
    assert to_torch(typed(text, FRAMES)) == printed


def test_a_float64_target_keeps_the_digits_of_numbers() -> None:
    node = typed("where(done, 0.1, 0.2)", PENDULUM, dtype="float64")
    assert node.type == Type("float64", (), "batch", True)
    assert to_torch(node) == "torch.where(done, 0.1, torch.full_like(done, 0.2, dtype=torch.float64))"


def test_cat_frames_of_known_rank() -> None:
    scope = {
        **{name: bound(name, "uint8", 3, 8, 8) for name in ("frame", "pad")},
        "stack": bound("stack", "uint8", 12, 8, 8),
        "next.frame": bound("next_frame", "uint8", 3, 8, 8),
        "N": dim(4),
        "dim": dim(-3),
        "padding": bound("", "str", level="lit", static="same"),
        "same": bound("", "str", level="lit", static="same"),
        "padding_value": bound("", "float32", level="lit", static=0.0),
    }
    assert to_torch(typed("where(padding == same, frame, frame)", scope)) == "frame"
    node = typed("concat(tile(pad, N - 1, axis=dim), frame, axis=dim)", scope)
    assert node.type == Type("uint8", (12, 8, 8))
    assert to_torch(node) == "torch.cat((pad.tile((3, 1, 1)), frame), dim=-3)"
    node = typed("concat(narrow(stack, start=size(frame, dim), axis=dim), next.frame, axis=dim)", scope)
    assert to_torch(node) == "torch.cat((stack[..., 3:, :, :], next_frame), dim=-3)"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("(x - loc) / sqrt(var + eps)", "(x - loc) / torch.sqrt(var + params.eps)"),
        ("reward * eps + 1", "reward * params.eps + 1"),
        ("float32(x)", "x.to(torch.float32)"),
        ("zeros_like(reward)", "torch.zeros_like(reward)"),
    ],
)
def test_patterns_print_plainly(text: str, printed: str) -> None:
    assert to_torch(typed(text, NORM)) == printed


def test_a_looked_up_value_does_not_share_the_table() -> None:
    scope = {
        "T": bound("consts.T", "float32", 2, 3, level="const"),
        "i": bound("i", "int64", values=Interval(0, 1)),
        "v": bound("v", "int64", 4, values=Interval(0, 1)),
        "flag": bound("params.flag", "bool", level="ctor"),
    }
    for text, printed in {
        "T[i]": "consts.T[i].clone()",
        "T[i, 1]": "consts.T[i, 1].clone()",
        "T[:, i]": "consts.T.movedim(-1, -2)[i].clone()",
        "reshape(T[i][1:], (2, 1))": "torch.unflatten(consts.T[i][..., 1:], -1, (2, 1)).clone()",
        "where(flag, T[i], T[0])": "(consts.T[i] if params.flag else consts.T[0, :].expand(*i.shape, 3)).clone()",
        "2 * T[i]": "2 * consts.T[i]",
        "T[v]": "consts.T[v]",
        "(2 * T)[i]": "(2 * consts.T)[i]",
    }.items():
        assert to_torch(typed(text, scope)) == printed


def test_numbers_become_tensors_of_the_target() -> None:
    like = typed("th", PENDULUM)
    one = typed("1.0", PENDULUM)
    assert to_torch(one) == "1.0"
    assert to_torch(one, cast="float32", dims=(), like=like) == "torch.ones_like(th)"
    assert to_torch(one, cast="float64", dims=(), like=like) == "torch.ones_like(th, dtype=torch.float64)"
    assert to_torch(one, cast="float32", dims=(), col=True, like=like) == (
        "torch.ones((*th.shape, 1), dtype=torch.float32, device=th.device)"
    )
    assert to_torch(typed("1", PENDULUM), cast="float32", dims=(), like=like) == "torch.ones_like(th)"
    assert to_torch(typed("th > 1", PENDULUM), dims=(), col=True) == "(th > 1).unsqueeze(-1)"
    assert to_torch(typed("reward", PENDULUM), dims=(), col=True) == "reward"
    assert to_torch(typed("reward", PENDULUM), dims=()) == "reward.squeeze(-1)"
    assert to_torch(typed("th", PENDULUM), cast="float64", dims=(4,)) == (
        "th.to(torch.float64).unsqueeze(-1).expand(*th.shape, 4).clone()"
    )


ACROBOT = {
    "dsdt": Function(
        "dsdt",
        "acrobot_dsdt",
        (("s", Type("float32", (4,))), ("torque", Type("float32", ()))),
        Type("float32", (4,)),
        ANYTHING,
        ("params",),
    )
}


def test_functions_and_integrators() -> None:
    node = typed("rk4(dsdt, stack(th, u, thdot, th), dt, u)[0]", PENDULUM, ACROBOT)
    text = to_torch(node)
    assert text == (
        "rk4(partial(acrobot_dsdt, params), torch.stack((th, u, thdot, th), dim=-1), params.dt, u)[..., 0]"
    )
    node = typed("dsdt(stack(th, u, thdot, th), 1)", PENDULUM, ACROBOT)
    assert to_torch(node) == (
        "acrobot_dsdt(params, torch.stack((th, u, thdot, th), dim=-1), torch.ones_like(th))"
    )
