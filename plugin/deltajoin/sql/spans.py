"""Where each parsed node stands in the text, so that it can be written as it was written.

sqlglot's writers bring SQL to a common form and lose meaning on the way (brackets of intervals,
types, clauses). So nothing that a user wrote is written by them. The parser notes for every node
the span of tokens that it was made from; a node is written as its own span, with those nodes inside
that were exchanged since (a column for what it stands for) in their places:

    coalesce( t.x , 1L )   with t.x -> `r`.`y` + 1   gives   coalesce( (`r`.`y` + 1) , 1L )

A node that was changed otherwise, or that we made, is written by sqlglot: only what is ours.
Caller: `SpanParser` and `SpanGenerator` are mixed into a dialect; `note_slots` after each parse.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, cast

from sqlglot import exp

_SPAN = "span"
Way = tuple[tuple[str, int | None], ...]
#: Always written by us: names are bound and quoted.
_NAMES = (exp.Column, exp.Identifier, exp.Table, exp.TableAlias)
#: Nothing is exchanged inside these.
_PARTS = (exp.Identifier, exp.TableAlias, exp.DataType)

#: A generator writes these with white space before them.
_SET_APART = (
    *(exp.From, exp.Join, exp.Lateral, exp.Pivot, exp.TableSample, exp.Where, exp.Group),
    *(exp.Having, exp.Qualify, exp.Order, exp.Sort, exp.Cluster, exp.Distribute),
    *(exp.Limit, exp.Offset),
)


class Tokens:
    """A text and the tokens in it, comments left out; places are offsets in the text."""

    def __init__(self, text: str, tokens: Sequence[Any]) -> None:
        self.text = text
        #: Suffixed numbers (1L) are several tokens in one place.
        self.places = sorted({(token.start, token.end + 1) for token in tokens})
        self._starts = [start for start, _ in self.places]

    def between(self, start: int, end: int) -> str:
        """The text from one place to another on one line, without comments."""
        first, last = bisect_left(self._starts, start), bisect_left(self._starts, end)
        pieces: list[str] = []
        before = start
        for begin, stop in self.places[first:last]:
            pieces += [" " if begin > before else "", self.text[begin:stop]]
            before = stop
        return "".join([*pieces, " " if end > before else ""])


class Span:
    """The place of a node; `slots` are the ways down to the nodes inside that have a place of their
    own, in order, and `skeleton` all that lies between."""

    __slots__ = ("end", "skeleton", "slots", "start", "tokens")

    def __init__(self, tokens: Tokens, start: int, end: int) -> None:
        self.tokens, self.start, self.end = tokens, start, end
        self.slots: tuple[tuple[Way, int, int], ...] = ()
        self.skeleton: object = None

    def __deepcopy__(self, memo: object) -> Span:
        return self


def span_of(node: exp.Expr) -> Span | None:
    """The span of a node that was parsed, also after nodes inside it were exchanged."""
    found = node._meta.get(_SPAN) if node._meta else None
    return found if isinstance(found, Span) else None


def _noting(parse: Callable[..., Any]) -> Callable[..., Any]:
    """A parser's method that notes where in the tokens its node stands."""

    @wraps(parse)
    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        begun = self.__dict__.setdefault("_begun", [0])
        first = self._index
        if args and isinstance(args[0], exp.Expr):  # it goes on from what is already parsed
            if _SPAN not in args[0].meta:
                args[0].meta[_SPAN] = (begun[-1], first)
            first = min(first, args[0].meta[_SPAN][0])
        begun.append(first)
        try:
            node = parse(self, *args, **kwargs)
        finally:
            begun.pop()
        if isinstance(node, exp.Expr) and self._index > first:
            noted = node._meta.get(_SPAN) if node._meta else None
            node.meta[_SPAN] = (min(first, noted[0]) if noted else first, self._index)
        return node

    return noting


class SpanParser:
    """Mixed into a sqlglot parser: its nodes know their tokens."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in dir(cls):
            method = getattr(cls, name)
            if name.startswith("_parse_") and not hasattr(method, "__wrapped__"):
                setattr(cls, name, _noting(method))


def note_slots(tree: exp.Expr, text: str, tokens: Sequence[Any]) -> None:
    """Turn the token numbers of a parse into places, and note what stands inside each node."""
    places = Tokens(text, tokens)
    # A hint is a comment, parsed by itself: its places are none of this text.
    for node in [node for hint in tree.find_all(exp.Hint) for node in hint.walk()]:
        node.meta.pop(_SPAN, None)
    walk = tree.walk(prune=lambda node: isinstance(node, exp.Hint))
    nodes = {id(node): node for node in walk}.values()  # a key of a pipe stands in its list too
    for node in nodes:
        if (place := _place(node, tokens)) is not None:
            node.meta[_SPAN] = Span(places, *place)
    for node in nodes:
        span = span_of(node)
        if span is not None and not isinstance(node, _NAMES):
            slots = sorted(_slots(node, span), key=lambda slot: slot[1:])
            apart = all(one[2] <= other[1] for one, other in zip(slots, slots[1:], strict=False))
            span.slots = tuple(slots)
            span.skeleton = _skeleton(node, {way for way, _, _ in slots}) if apart else None


def _place(node: exp.Expr, tokens: Sequence[Any]) -> tuple[int, int] | None:
    """Where a node begins and ends; a column where its names do."""
    if isinstance(node, exp.Column):
        parts = [part for part in node.parts if "start" in part.meta]
        if parts:
            return around(parts)
    pair = node._meta.get(_SPAN) if node._meta else None
    return (tokens[pair[0]].start, tokens[pair[1] - 1].end + 1) if pair else None


def around(parts: list[exp.Expr]) -> tuple[int, int]:
    """Where a dotted name begins and ends in the text."""
    starts, ends = ([int(part.meta[end]) for part in parts] for end in ("start", "end"))
    return min(starts), max(ends) + 1


def _slots(node: exp.Expr, outer: Span, way: Way = ()) -> Iterator[tuple[Way, int, int]]:
    for step, child in _children(node):
        span = span_of(child)
        if span is not None and not isinstance(child, _PARTS):
            yield (*way, step), max(span.start, outer.start), min(span.end, outer.end)
        else:
            yield from _slots(child, outer, (*way, step))


def _children(node: exp.Expr) -> Iterator[tuple[tuple[str, int | None], exp.Expr]]:
    for name, value in node.args.items():
        if isinstance(value, exp.Expr):
            yield (name, None), value
        elif isinstance(value, list):
            for number, child in enumerate(value):
                if isinstance(child, exp.Expr):
                    yield (name, number), child


def _skeleton(node: exp.Expr, slots: set[Way], way: Way = ()) -> object:
    """What a node is, but for what stands in its slots."""
    parts: list[object] = [type(node)]
    for name, value in node.args.items():
        several = isinstance(value, list)
        for number, child in enumerate(value if several else [value]):
            step = (*way, (name, number if several else None))
            if step in slots:
                parts.append((name, None))
            elif isinstance(child, exp.Expr):
                parts.append((name, _skeleton(child, slots, step)))
            elif child is not None and child is not False:
                parts.append((name, child))
    return tuple(parts)


def written(node: exp.Expr, write: Callable[[exp.Expr], str]) -> str | None:
    """A node as it was written, what was exchanged in it by `write`; None where it isn't so."""
    span = span_of(node)
    if span is None or span.skeleton is None or isinstance(node, _NAMES):
        return None
    ways = {way for way, _, _ in span.slots}
    if _skeleton(node, ways) != span.skeleton:
        return None
    if isinstance(node, exp.Not) and not _has_words(node, span):
        return None
    pieces, before = [], span.start
    for way, start, end in span.slots:
        pieces += [span.tokens.between(before, start), write(_at(node, way))]
        before = end
    return "".join([*pieces, span.tokens.between(before, span.end)])


def _has_words(node: exp.Not, span: Span) -> bool:
    """False where the word stands within or behind what it negated (`x NOT IN (...)`), which was
    exchanged."""
    inside = span_of(node.this)
    for way, start, end in span.slots:
        if way == (("this", None),) and start == span.start:
            return inside is not None and (inside.start, inside.end) == (start, end)
    return True


def _at(node: exp.Expr, way: Way) -> exp.Expr:
    found: Any = node
    for name, number in way:
        found = found.args[name] if number is None else found.args[name][number]
    assert isinstance(found, exp.Expr)  # noqa: S101 - the skeleton was compared
    return found


class SpanGenerator:
    """Mixed into a sqlglot generator: what was written stays as it was written."""

    def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
        if key is None and isinstance(expression, exp.Expr):
            found = written(expression, self._inside)
            if found is not None:
                before = cast(Any, self).sep() if isinstance(expression, _SET_APART) else ""
                return before + self._safe(found)
        made: str = super().sql(expression, key, comment)  # type: ignore[misc]
        return made

    def _inside(self, node: exp.Expr) -> str:
        """A node in a place of what was written, which has the white space around it."""
        return self.sql(node).lstrip() if isinstance(node, _SET_APART) else self.sql(node)

    def _safe(self, sql: str) -> str:
        """A line break in a string is not to be indented."""
        pretty = cast(Any, self).pretty
        return sql.replace("\n", cast(Any, self).SENTINEL_LINE_BREAK) if pretty else sql
