"""`reduce`: over which dimensions of the samples of a loss its terms take means before the reduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specgen.check.losses.model import MeansFirst
from specgen.check.model import Parameter
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import loss_conditions as rules
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Loss, Term

BY = "by"
"""The entry that names the parameter; the others are its words."""
UNREDUCED = "none"
"""What stands for the dimensions of a word with which nothing is reduced."""


def means_first(
    file: SchemaFile, path: tuple[str, ...], loss: Loss, params: Sequence[Parameter], sink: Sink
) -> MeansFirst | None:
    """The means that terms take first, by the words of a parameter; None where there are none, or a mistake."""
    if not loss.reduce:
        return None
    here, by = (*path, "reduce"), loss.reduce.get(BY)
    words = {param.name: param.choices for param in params if param.choices}
    if not isinstance(by, str) or by not in words:
        if isinstance(by, str) and by in loss.params and by not in [param.name for param in params]:
            return None  # reported where it is declared
        span = file.key_span(*here) if by is None else file.span(*here, BY)
        message = "`by` names the parameter whose words say how terms are reduced"
        message += "" if by is None else f"; `{by}` is none that has words"
        near = suggestion(by, words) if isinstance(by, str) else None
        declare = 'declare it: `params: {aggregation: {type: "enum(token_mean, prompt_mean)", …}}`'
        help = near or (f"write `by: {next(iter(words))}`" if words else declare)
        sink.add(rules.WRONG_REDUCE.at(span, message, help=help))
        return None
    known = sink.errors
    _words_listed(file, here, loss.reduce, by, words[by], sink)
    dims = {
        word: _dimensions(file, here, word, given, loss.samples, sink)
        for word, given in loss.reduce.items()
        if word in words[by]
    }
    for name, term in loss.terms.items():
        if isinstance(term, Term) and term.elementwise:
            message = f"`{name}` has several numbers of each sample: the dimensions of samples are not its last ones"
            help = "reduce it to one number of each sample, and leave out `elementwise`"
            sink.add(
                rules.WRONG_REDUCE.at(file.key_span(*path, "terms", name, "elementwise"), message, help=help)
            )
    return MeansFirst(by, dims) if sink.errors == known else None


def _words_listed(
    file: SchemaFile,
    here: tuple[str, ...],
    given: Mapping[str, list[str] | str],
    by: str,
    words: Sequence[str],
    sink: Sink,
) -> None:
    """Report words that the parameter has not, and those that are missing."""
    missing = [word for word in words if word not in given]
    for word in given:
        if word != BY and word not in words:
            help = suggestion(word, words) or f"its words are {', '.join(words)}"
            sink.add(
                rules.WRONG_REDUCE.at(file.key_span(*here, word), f"`{word}` is no word of `{by}`", help=help)
            )
            return
    if missing:
        message = f"`reduce` does not say what `{by}={missing[0]}` does"
        help = f"write `{missing[0]}: []` for one mean over all samples, or `{missing[0]}: {UNREDUCED}`"
        sink.add(rules.WRONG_REDUCE.at(file.key_span(*here), message, help=help))


def _dimensions(
    file: SchemaFile,
    here: tuple[str, ...],
    word: str,
    given: list[str] | str,
    samples: Sequence[str],
    sink: Sink,
) -> tuple[int, ...] | None:
    """The dimensions over which a word takes means first, from the last, -1; None for no reduction, or a mistake."""
    if given == UNREDUCED:
        return None
    others = list(samples[1:])
    named = [given] if isinstance(given, str) else given
    for index, name in enumerate(named):
        if name in others and named.index(name) == index and not isinstance(given, str):
            continue
        place: tuple[str | int, ...] = (*here, word) if isinstance(given, str) else (*here, word, index)
        message = f"`{name}` is no dimension of the samples behind the batch"
        help = suggestion(name, others) or (
            f"write one of {', '.join(others)}" if others else "declare them: `samples: [batch, token]`"
        )
        if name in others:
            message, help = f"`{name}` stands here twice", f"write [{name}]"
            if isinstance(given, str):
                message = f"`{word}` lists dimensions of the samples, or is `{UNREDUCED}`"
        sink.add(rules.WRONG_REDUCE.at(file.span(*place), message, help=help))
        return None
    return tuple(others.index(name) - len(others) for name in named)
