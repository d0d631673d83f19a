"""CatFrames, VecNorm, FrameSkip, ClipPPO, SAC and GAE as programs, as the checker will build them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from specgen.expr import Interval, Symbol, Type
from specgen.expr.sizes import Sym
from specgen.expr.types import Distribution, Procedure, Record
from specgen.program.program import Carried, Program, Region
from specgen.program.walk import read, store
from tests.program.builder import COLUMN, FLAG, FLOAT, Builder, literal

FIXED = Type("float32", (), "const")
"""One tensor for all rows, such as a buffer."""


def cat_frames(frame: Type, stacked: Type, count: int, axis: int) -> tuple[Program, Program]:
    """`reset` repeats the first frame; `step` drops the oldest frame and appends the next."""
    reset = Builder("transforms.CatFrames.reset")
    reset.input("frame", frame, key=("pixels",), time="now")
    first = reset.let(
        "stacked", f"concat(tile(frame, {count - 1}, axis={axis}), frame, axis={axis})", stacked
    )
    step = Builder("transforms.CatFrames.step")
    step.input("stacked", stacked)
    step.input("next.frame", frame)
    text = f"concat(narrow(stacked, start=size(next.frame, {axis}), axis={axis}), next.frame, axis={axis})"
    after = step.let("next.stacked", text, stacked)
    return (
        reset.program("cat_frames_reset", {"stacked": first}),
        step.program("cat_frames_step", {"stacked": after}),
    )


def vec_norm(width: int) -> tuple[Program, Program]:
    """`update` of running statistics from new rows, and the `map` that uses them."""
    vector, fixed = Type("float32", (width,)), Type("float32", (width,), "const")
    update = Builder("transforms.VecNorm.update")
    update.number("decay")
    update.input("count", FIXED, "buffer")
    update.input("loc", fixed, "buffer")
    update.input("var", fixed, "buffer")
    update.input("x", vector)
    count = update.let("next.count", "decay * count + batch_count(x)")
    update.let("w", "batch_count(x) / next.count")
    update.let("d", "batch_mean(x) - loc")
    loc = update.let("next.loc", "loc + w * d")
    spread = "batch_mean((x - batch_mean(x)) ** 2) + (1 - w) * d ** 2"
    var = update.let("next.var", f"(1 - w) * var + w * ({spread})")
    normalise = Builder("transforms.VecNorm.map")
    normalise.number("eps")
    normalise.input("loc", fixed, "buffer")
    normalise.input("var", fixed, "buffer", interval=Interval(0, math.inf))
    normalise.input("x", vector)
    result = normalise.let("y", "(x - loc) / sqrt(var + eps)", vector)
    return (
        update.program("vec_norm_update", {"count": count, "loc": loc, "var": var}, "VecNormBuffers"),
        normalise.program("vec_norm_map", {"y": result}),
    )


def frame_skip(advance: Program, reward: Program, state: Sequence[Symbol], count: int) -> Program:
    """An environment's step repeated: rewards add up, and an environment that is done keeps its state."""
    builder = Builder("chains.Skip")
    fixed = [one for one in advance.inputs if one.group]
    actions = [one for one in advance.inputs if one.kind == "action"]
    states = [one for one in advance.inputs if one.kind == "state"]
    builder.inputs += [*fixed, *states, *actions]
    for one in builder.inputs:
        builder.bind(one.symbol.name, one.symbol)
    done = builder.input("done", FLAG, "flag")
    nothing, zero = store(literal(False), FLAG, done), store(literal(0.0), COLUMN, done)
    inits = {symbol.name: read(symbol) for symbol in state}
    inits |= {"over": nothing, "terminated": nothing, "truncated": nothing, "total": zero}
    types = {name: init.type for name, init in inits.items()}
    with builder.inside() as body:
        inner = {name: builder.symbol(name, type) for name, type in types.items()}
        made = {f"base.{output.name}": output.symbol.type for output in advance.outputs}
        symbols = builder.call(made, advance, *(one.symbol.name for one in advance.inputs))
        after = {output.name: symbol for output, symbol in zip(advance.outputs, symbols, strict=True)}
        builder.call(
            {"reward": COLUMN},
            reward,
            *(f"base.{one.symbol.name}" if not one.group else one.symbol.name for one in reward.inputs),
        )
        ends = {name: after[name] for name in types if name in after}
        ends["total"] = builder.let("summed", "total + reward", named=False)
        ends["over"] = builder.let("ended", "over or base.done", named=False)
    carried = tuple(
        Carried(inner[name], init, ends[name], builder.symbol(f"next.{name}", types[name]))
        for name, init in inits.items()
    )
    origin = "chains.Skip.transforms[0]"
    builder.statements.append(
        Region("repeat", tuple(body), carried, count=literal(count), mask=inner["over"], origin=origin)
    )
    results = {one.inner.name: one.result for one in carried if one.result is not None}
    names = {"over": "done", "total": "reward"}
    outputs = {names.get(name, name): symbol for name, symbol in results.items()}
    return builder.program("skip_advance", outputs, "SkipNext")


def clip_ppo() -> Program:
    """Clipped policy gradients: a distribution is a value, and some reductions are over the whole batch."""
    builder = Builder("losses.ClipPPOLoss")
    builder.input("dist", Distribution(family="categorical", event=Type("int64", ())))
    builder.input("value", COLUMN)
    builder.input("action", Type("int64", ()))
    builder.input("sample_log_prob", FLOAT)
    builder.input("advantage", COLUMN)
    builder.input("value_target", COLUMN)
    for name in ("clip_epsilon", "entropy_coeff", "critic_coeff"):
        builder.number(name)
    builder.number("normalize_advantage", "bool")
    builder.number("loss_critic_type", "str")
    builder.let("log_ratio", "log_prob(dist, action) - stop_grad(sample_log_prob)")
    builder.let("ratio", "exp(log_ratio)")
    normalised = "(advantage - batch_mean(advantage)) / max(batch_std(advantage), 1.0e-6)"
    builder.let("gain", f"where(normalize_advantage, {normalised}, advantage)")
    builder.let("bounded", "clip(ratio, 1 - clip_epsilon, 1 + clip_epsilon)")
    terms = {
        "loss_objective": builder.let("loss_objective", "-min(ratio * gain, bounded * gain)", FLOAT),
        "loss_entropy": builder.let("loss_entropy", "-entropy_coeff * entropy(dist)", FLOAT),
        "loss_critic": builder.let(
            "loss_critic", "critic_coeff * distance(value, value_target, loss_critic_type)", FLOAT
        ),
    }
    with builder.inside() as body:
        builder.let("entropy", "entropy(dist)", named=False)
        builder.let("kl_approx", "-log_ratio", named=False)
        builder.let("clip_fraction", "where(abs(ratio - 1) > clip_epsilon, 1.0, 0.0)", named=False)
        size = "exp(2 * batch_logsumexp(log_ratio) - batch_logsumexp(2 * log_ratio))"
        builder.let("ESS", f"{size} / batch_count(log_ratio)", named=False)
    metrics = builder.no_grad(body)
    return builder.program("clip_ppo_loss", terms | metrics, "ClipPPOLossTerms", dict.fromkeys(terms, "term"))


def sac() -> Program:
    """Soft actor-critic: an ensemble of critics, copies of networks, replaced inputs, a learnable temperature."""
    ensemble = Sym.named("ensemble")
    critics, actions = Type("float32", (ensemble,)), Type("float32", (2,))
    policy = Distribution(family="tanh_normal", event=actions)
    network = Procedure(params=(("data", Record()),), returns=(("action_value", critics),))
    builder = Builder("losses.SACLoss")
    actor = builder.input("actor_network", Procedure(returns=(("action", policy),)), "network")
    critic = builder.input("qvalue_network", network, "network")
    builder.input("now", Record())
    builder.input("next", Record())
    builder.input("value_estimate", Procedure(), "function")
    builder.input("log_alpha", FIXED, "learnable")
    builder.number("target_entropy")
    builder.let("alpha", "stop_grad(exp(log_alpha))")
    (dist,) = builder.call({"next_dist": policy}, "live", "next", receiver=actor)
    builder.call({"next_action": actions}, "rsample", receiver=dist, effect="draws")
    builder.call({"next_q": critics}, "target", "next", receiver=critic, action="next_action")
    builder.let("next_value", "min(next_q, axis=-1) - alpha * log_prob(next_dist, next_action)")
    builder.let("target", "stop_grad(value_estimate(next_value))")
    builder.call({"q": critics}, "live", "now", receiver=critic)
    (dist,) = builder.call({"dist": policy}, "live", "now", receiver=actor)
    builder.call({"new_action": actions}, "rsample", receiver=dist, effect="draws")
    builder.let("log_p", "log_prob(dist, new_action)")
    builder.call({"frozen_q": critics}, "frozen", "now", receiver=critic, action="new_action")
    terms = {
        "loss_actor": builder.let("loss_actor", "alpha * log_p - min(frozen_q, axis=-1)", FLOAT),
        "loss_qvalue": builder.let("loss_qvalue", "sum((q - target[None]) ** 2, axis=-1)", FLOAT),
        "loss_alpha": builder.let("loss_alpha", "-log_alpha * (stop_grad(log_p) + target_entropy)", FLOAT),
    }
    with builder.inside() as body:
        builder.let("entropy", "-log_p", named=False)
        builder.let("priority", "max(abs(q - target[None]), axis=-1)", COLUMN, named=False)
    writes = builder.no_grad(body)
    return builder.program("sac_loss", terms | writes, "SACLossTerms", dict.fromkeys(terms, "term"))


def gae() -> Program:
    """Generalised advantages: a scan over time, from the end."""
    builder = Builder("estimators.GAE")
    for name in ("value", "next_value", "reward"):
        builder.input(name, COLUMN)
    builder.input("done", FLAG)
    builder.input("terminated", FLAG)
    builder.number("gamma")
    builder.number("lmbda")
    error = "reward + where(terminated, 0.0, gamma * next_value) - value"
    delta = builder.let("delta", error)
    decay = builder.let("decay", "where(done, 0.0, gamma * lmbda)", COLUMN)
    init = store(literal(0.0), COLUMN, delta)
    with builder.inside() as body:
        gain = builder.symbol("gain", COLUMN)
        here = (builder.symbol("d", COLUMN), builder.symbol("f", COLUMN))
        after = builder.let("gain", "d + f * gain", named=False)
    advantage = builder.symbol("advantage", COLUMN)
    scan = Region(
        "scan",
        tuple(body),
        (Carried(gain, init, after),),
        ((advantage, after),),
        over=tuple(zip((delta, decay), here, strict=True)),
        axis="time",
        backward=True,
        origin="estimators.GAE.advantage",
    )
    builder.statements.append(scan)
    target = builder.let("value_target", "advantage + value", COLUMN)
    return builder.program("gae", {"advantage": advantage, "value_target": target}, "GAEOutput")
