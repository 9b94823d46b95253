"""Lookup paths -> their statements.

    path_<driver>_<n>   the travelling change after step n; its columns are `relation.column`
    shared_<m>_<n>      the changes of several paths, after n of the steps that they take together

Paths of one branch that have the same steps ahead are united before the first of these
(`delta.sharing`), each row with its path's number, so that rows are counted by path all the same.
Touched groups and partitions travel alike: from their keys to all of their rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from sqlglot import exp

from deltajoin.delta.path import LookupPath, LookupStep
from deltajoin.delta.sharing import SharedEnd, shared_ends
from deltajoin.delta.state import GroupState
from deltajoin.emit.ast import pretty, table, union_all
from deltajoin.emit.stream import Statement, StepEmitter
from deltajoin.emit.views import Views
from deltajoin.graph import JoinGraph
from deltajoin.names import quote

#: How often a view over few rows is written out at most.
_WRITTEN_OUT = 2


@dataclass(frozen=True)
class PathProgram:
    """The statements of one lookup path, in order.

    The last gives output rows with a weight, or what goes on into shared lookups, where `number`
    marks its rows. Some are broadcast; `sent` is the most rows of its change with which these are
    still few enough, 0 where none are.
    """

    driver: str
    feed: str
    statements: tuple[Statement, ...]
    number: int
    sent: int = 0


@dataclass(frozen=True)
class SharedProgram:
    """Lookups that several paths, given by their numbers, take together.

    `view` is the union (all rows, columns by position) of the views `inputs` that have rows, which
    is computed once if it is `kept`; the statements go on from there as a path's do.
    """

    view: str
    paths: tuple[int, ...]
    inputs: tuple[str, ...]
    statements: tuple[Statement, ...]
    kept: bool = False

    @property
    def sql(self) -> str:
        """The union of all inputs, for people and for engines that take it as text."""
        return _union(self.inputs)


def path_statements(
    paths: Iterable[PathProgram], shared: Iterable[SharedProgram]
) -> Iterator[Statement]:
    """All statements of some paths, in order."""
    for path in paths:
        yield from path.statements
    for part in shared:
        yield Statement(part.view, part.sql)
        yield from part.statements


def path_programs(
    graph: JoinGraph, paths: Sequence[LookupPath], views: Views, state: GroupState | None = None
) -> tuple[tuple[PathProgram, ...], tuple[SharedProgram, ...]]:
    """The statements of every path, and of the lookups that several of them share; those of groups
    that have a `state` may end with what they add to it."""
    state = state if gives_states(paths) else None
    ends = shared_ends(paths)
    alone, streams, spare = [], [], []
    for number, path in enumerate(paths):
        ahead = max((end.first for end in ends if number in end.paths), default=0)
        prefix = views.part.paths[path.driver, path.branch]
        emitter = StepEmitter(graph, path.branch, views, prefix, number, state)
        change = emitter.change(path, marked=ahead > 0)
        streams.append(emitter.follow(path.steps, change, ahead))
        spare.append(emitter.spare)
        feed = views.changes(path.source)
        alone.append(PathProgram(path.driver, feed, tuple(emitter.statements), number))
    shared = []
    for i, end in enumerate(ends):
        members = [paths[number] for number in end.paths]
        emitter = StepEmitter(graph, members[0].branch, views, views.part.shared[i], state=state)
        inputs = {streams[number].view: streams[number] for number in end.paths}
        united = emitter.united(tuple(inputs.values()))
        stream = emitter.follow(_ahead(members, end), united, end.last)
        shared.append(
            SharedProgram(united.view, end.paths, tuple(inputs), tuple(emitter.statements))
        )
        for number in end.paths:
            streams[number] = stream
            spare[number] = min(spare[number], emitter.spare)
    alone = list(map(_with_sent, alone, paths, spare))
    last = {path.statements[-1].view for path in alone}
    last |= {part.statements[-1].view for part in shared}
    last -= {view for part in shared for view in part.inputs}
    kept = _read(path_statements(alone, shared), last, views)
    return (
        tuple(replace(path, statements=_marked(path.statements, kept)) for path in alone),
        tuple(
            replace(part, statements=_marked(part.statements, kept), kept=kept[part.view])
            for part in shared
        ),
    )


def gives_states(paths: Iterable[LookupPath]) -> bool:
    """Whether paths end with what they add to groups: where one of them has no rows to give."""
    found = (step.accelerated for path in paths for step in path.steps[-1:])
    return any(each is not None and each.running is not None for each in found)


def _read(statements: Iterable[Statement], ends: Iterable[str], views: Views) -> Mapping[str, bool]:
    """The views that lead to one of the ends, and which of them are computed once: Spark writes a
    view out wherever it is read, and what that reads again, so that joins within joins would
    multiply. Over few rows, to compute one takes longer than to write it out a few times."""
    ordered = tuple(statements)
    names = {name: quote(name) for name in (views.part.touched, *(each.view for each in ordered))}
    kept: dict[str, bool] = {}
    times = Counter(ends)
    for statement in reversed(ordered):
        written = times[statement.view]
        if not written:
            continue
        # A user's own text is part of it: nothing but the name itself tells what is read.
        found = {name: statement.sql.count(quoted) for name, quoted in names.items()}
        once = any(found.values()) and written > (_WRITTEN_OUT if views.few_rows else 1)
        kept[statement.view] = once
        for name, often in found.items():
            times[name] += often if once else often * written
    return kept


def _marked(statements: Iterable[Statement], kept: Mapping[str, bool]) -> tuple[Statement, ...]:
    """The statements that are read. (Whoever goes on by the keys of the stream takes them from
    before a left join, which nobody reads then.)"""
    return tuple(replace(each, kept=kept[each.view]) for each in statements if each.view in kept)


def _with_sent(program: PathProgram, path: LookupPath, spare: float) -> PathProgram:
    return replace(program, sent=0 if spare == inf else int(spare * max(path.estimated_rows, 1)))


def _ahead(paths: Sequence[LookupPath], end: SharedEnd) -> list[LookupStep]:
    """The steps that some paths have ahead, with the rows that all of them are expected to have."""
    chains = [path.steps[len(path.steps) - end.first :] for path in paths]
    return [
        replace(steps[0], estimated_rows=sum(step.estimated_rows for step in steps))
        for steps in zip(*chains, strict=True)
    ]


def regroup_statements(
    graph: JoinGraph,
    paths: Sequence[LookupPath],
    chains: Sequence[Sequence[LookupStep]],
    views: Views,
    name: str,
) -> tuple[Statement, ...]:
    """From the group keys that the paths touch to the rows of their groups; the last view is
    `name`."""
    statements: list[Statement] = []
    touched = float(sum(path.given_rows for path in paths))
    ends = []
    for branch, steps in enumerate(chains):
        emitter = StepEmitter(graph, branch, views, f"{name}_{branch}")
        ends.append(emitter.follow(steps, emitter.touched(touched), nested=True).view)
        statements += emitter.statements
    if not ends:
        return ()
    statements.append(Statement(name, _union(ends)))
    return _marked(statements, _read(statements, [name], views))


def _union(inputs: Iterable[str]) -> str:
    return pretty(union_all(*(exp.select("*").from_(table(view)) for view in inputs)))
