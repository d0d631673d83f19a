"""Calls of declared functions: which arguments fit, and what names of sizes and the dtype `float` are for them."""

from __future__ import annotations

import math

from specgen.diagnostics.rules import expressions as rules
from specgen.diagnostics.rules.function_calls import ARGUMENT_DOMAIN
from specgen.expr.builtins.site import Site
from specgen.expr.conversions import common_dtype, convert
from specgen.expr.dtypes import COMPUTE, is_float, join
from specgen.expr.sizes import Dim, Dims, Rest, Sym, replaced
from specgen.expr.types import Function, Type, Typed
from specgen.values import replace


def fitted(
    site: Site, function: Function, args: tuple[Typed, ...]
) -> tuple[Function, tuple[Typed, ...]] | None:
    """A function as it is called, all of whose types are those of this call, and its arguments in these types.

    A function of a whole file is for any leading dimensions, and the sizes that its types name are those of the
    arguments.

    Returns:
        None where the arguments do not fit, which is reported.
    """
    if len(args) != len(function.params):
        names = ", ".join(name for name, _ in function.params)
        message = f"`{function.name}({names})` takes {len(function.params)} arguments, {len(args)} are given"
        site.fail(rules.WRONG_ARGUMENTS, message)
        return None
    if function.module:
        known = _instance(site, function, args)
        if known is None:
            return None
        function = known
    fitting: list[Typed] = []
    for (name, wanted), arg in zip(function.params, args, strict=True):
        if not _fits(site, function, name, wanted, arg):
            return None
        fitting.append(arg if arg.type.python else convert(arg, wanted.dtype))
    return function, tuple(fitting)


def _fits(site: Site, function: Function, name: str, wanted: Type, arg: Typed) -> bool:
    """Whether an argument has the type and the values that a parameter wants; reported where it has not."""
    got = arg.type
    said = f"`{site.written(arg)}` is {got}; `{name}` of `{function.name}` is {wanted}"
    if wanted.python and not got.python:
        message = (
            f"`{name}` of `{function.name}` is one number for all rows, `{site.written(arg)}` is a tensor"
        )
        site.fail(rules.WRONG_ARGUMENTS, message, at=arg)
        return False
    # A number fills whatever dimensions a function of a file has; a value of each row those in front.
    scalar = bool(function.module) and (got.python or got.dims == ())
    if got.dims != wanted.dims and not scalar:
        site.fail(rules.SHAPE_MISMATCH, said, at=arg)
        return False
    exact = got.python and got.dtype != "bool" and is_float(wanted.dtype)
    same = join(got.dtype, wanted.dtype) == wanted.dtype and (got.dtype == "bool") == (wanted.dtype == "bool")
    if wanted.dtype == "float" and not is_float(got.dtype):
        same = False
    if not exact and not same:
        concrete = COMPUTE if wanted.dtype == "float" else wanted.dtype
        site.fail(rules.WRONG_DTYPE, said, at=arg, help=f"write {concrete}({site.written(arg)})")
        return False
    index = next(place for place, (other, _) in enumerate(function.params) if other == name)
    domain = function.domains[index] if function.domains else None
    if domain is not None and not (domain.low <= arg.interval.low and arg.interval.high <= domain.high):
        ends, has = (f"[{each.low:g}, {each.high:g}]" for each in (domain, arg.interval))
        said = f"is {arg.interval.low:g}" if arg.interval.fixed else f"may be anything in {has}"
        message = f"`{name}` of `{function.name}` is in {ends}; `{site.written(arg)}` {said}"
        finite = math.isfinite(domain.low) and math.isfinite(domain.high)
        help = f"write clip({site.written(arg)}, {domain.low:g}, {domain.high:g})" if finite else None
        site.fail(ARGUMENT_DOMAIN, message, at=arg, help=help)
        return False
    return True


def _instance(site: Site, function: Function, args: tuple[Typed, ...]) -> Function | None:
    """A function of a file with the sizes, the dtype and the leading dimensions of a call; reported where they differ."""
    sizes: dict[str, Dim] = {}
    lead: Dims = ()
    by: Typed | None = None
    for (name, wanted), arg in zip(function.params, args, strict=True):
        got = arg.type
        if wanted.python or got.python or (got.dims == () and wanted.dims == ()):
            continue
        count = len(got.dims) - len(wanted.dims)
        front, back = got.dims[: max(count, 0)], got.dims[max(count, 0) :]
        open_behind = any(isinstance(size, Rest) for size in back)
        if count < 0 or open_behind or not _matches(wanted.dims, back, sizes):
            named = f" ({', '.join(f'{n} = {s}' for n, s in sizes.items())})" if sizes else ""
            message = f"`{site.written(arg)}` is {got}; `{name}` of `{function.name}` is {wanted}{named}"
            site.fail(rules.SHAPE_MISMATCH, message, at=arg)
            return None
        if by is not None and front != lead:
            message = f"`{site.written(by)}` is {by.type} and `{site.written(arg)}` is {got}"
            help = f"all tensors that `{function.name}` is given have the same leading dimensions"
            site.fail(rules.SHAPE_MISMATCH, message, at=arg, help=help)
            return None
        lead, by = front, arg
    tensors = [
        arg
        for (_, wanted), arg in zip(function.params, args, strict=True)
        if wanted.dtype == "float" and not wanted.python
    ]
    given = [arg for arg in tensors if is_float(arg.type.dtype) or arg.type.python]
    dtype = (common_dtype(given) if given else None) or COMPUTE
    dtype = dtype if is_float(dtype) else COMPUTE

    def concrete(kind: Type) -> Type:
        if kind.python:
            return kind
        dims = tuple(size if isinstance(size, Rest) else replaced(size, sizes) for size in kind.dims)
        return replace(kind, dtype=dtype if kind.dtype == "float" else kind.dtype, dims=(*lead, *dims))

    params = tuple((name, concrete(kind)) for name, kind in function.params)
    return replace(function, params=params, result=concrete(function.result))


def _matches(pattern: Dims, found: Dims, sizes: dict[str, Dim]) -> bool:
    """Whether dimensions are those of a pattern; `sizes` takes what its names are."""
    for size, have in zip(pattern, found, strict=True):
        assert not isinstance(size, Rest)
        assert not isinstance(have, Rest)
        if isinstance(size, Sym) and size.name and size.name not in sizes:
            sizes[size.name] = have
        elif replaced(size, sizes) != have:
            return False
    return True
