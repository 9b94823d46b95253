"""Known mistakes of delta joins, each made on a right plan, program or feed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sqlglot
from sqlglot import exp

from deltajoin.delta.path import LookupPath, LookupStep
from deltajoin.delta.plan import DeltaPlan
from deltajoin.emit.paths import PathProgram
from deltajoin.emit.sql import Program
from deltajoin.emit.stream import Statement
from deltajoin.names import WEIGHT
from deltajoin.sql.dialect import Verbatim
from tests.property.oracle import Feeds, Mutant

Step = Callable[[LookupStep], LookupStep]


def _paths(plan: DeltaPlan, paths: tuple[LookupPath, ...]) -> DeltaPlan | None:
    return None if paths == plan.paths else replace(plan, paths=paths)


def _steps(
    change: Callable[[DeltaPlan, LookupStep], LookupStep],
) -> Callable[..., DeltaPlan | None]:
    def mutate(plan: DeltaPlan) -> DeltaPlan | None:
        paths = tuple(
            replace(path, steps=tuple(change(plan, step) for step in path.steps))
            for path in plan.paths
        )
        return _paths(plan, paths)

    return mutate


def _first_step(
    change: Callable[[DeltaPlan, LookupStep], LookupStep],
) -> Callable[[DeltaPlan], DeltaPlan | None]:
    """Change the first step that can be changed, of one path only."""

    def mutate(plan: DeltaPlan) -> DeltaPlan | None:
        for p, path in enumerate(plan.paths):
            for s, step in enumerate(path.steps):
                wrong = change(plan, step)
                if wrong != step:
                    steps = (*path.steps[:s], wrong, *path.steps[s + 1 :])
                    altered = replace(path, steps=steps)
                    return replace(plan, paths=(*plan.paths[:p], altered, *plan.paths[p + 1 :]))
        return None

    return mutate


def _version(plan: DeltaPlan, step: LookupStep, epoch: str) -> LookupStep:
    source = next(s for s in plan.sources if s.source == step.source)
    version = source.version if epoch == "this" else source.previous
    assert version is not None
    return replace(step, version=version)


def _this(plan: DeltaPlan, step: LookupStep) -> LookupStep:
    return _version(plan, step, "this")


def _previous(plan: DeltaPlan, step: LookupStep) -> LookupStep:
    return _version(plan, step, "previous")


def _without_predicate(plan: DeltaPlan, step: LookupStep) -> LookupStep:
    return replace(step, on=step.on[1:]) if len(step.on) > 1 else step


def _null_safe(plan: DeltaPlan, step: LookupStep) -> LookupStep:
    on = tuple(sql.replace(" = ", " <=> ", 1) for sql in step.on)
    return replace(step, on=on)


def _last_path_dropped(plan: DeltaPlan) -> DeltaPlan | None:
    return _paths(plan, plan.paths[:-1])


def _self_join_once(plan: DeltaPlan) -> DeltaPlan | None:
    """Only the first occurrence of a table drives a path."""
    first = {path.source: path for path in reversed(plan.paths)}
    return _paths(plan, tuple(p for p in plan.paths if first[p.source] is p))


# programs -----------------------------------------------------------------------------------------


def _parsed(sql: str) -> exp.Select:
    tree = sqlglot.parse_one(sql, dialect=Verbatim)
    assert isinstance(tree, exp.Select)
    return tree


def _text(tree: exp.Expression) -> str:
    return tree.sql(dialect=Verbatim, identify=True)


def _new_image_only(program: Program, plan: DeltaPlan) -> Program | None:
    """The filter of a driver judges inserted rows only; every deleted row passes."""

    def change(path: PathProgram) -> PathProgram:
        first = path.statements[0]
        tree = _parsed(first.sql)
        where = tree.args.get("where")
        if where is None:
            return path
        driver = exp.to_identifier(path.driver, quoted=True)
        weight = exp.column(exp.to_identifier(WEIGHT, quoted=True), table=driver)
        tree.set(
            "where", exp.Where(this=exp.or_(where.this, exp.LT(this=weight, expression=_zero())))
        )
        return replace(path, statements=(replace(first, sql=_text(tree)), *path.statements[1:]))

    paths = tuple(change(path) for path in program.paths)
    return None if paths == program.paths else replace(program, paths=paths)


def _zero() -> exp.Literal:
    return exp.Literal.number(0)


def _absolute(program: Program, plan: DeltaPlan) -> Program | None:
    feeds = tuple(
        replace(feed, sql=f"SELECT * REPLACE (abs({WEIGHT}) AS {WEIGHT}) FROM ({feed.sql}) AS f")
        for feed in program.feeds
    )
    return replace(program, feeds=feeds)


def _distinct_change(program: Program, plan: DeltaPlan) -> Program | None:
    feeds = tuple(
        replace(feed, sql=f"SELECT * REPLACE (sign({WEIGHT}) AS {WEIGHT}) FROM ({feed.sql}) AS f")
        for feed in program.feeds
    )
    return replace(program, feeds=feeds)


def _distinct_paths(program: Program, plan: DeltaPlan) -> Program | None:
    """UNION for UNION ALL: rows of one path that are alike count once."""

    def change(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        last = statements[-1]
        return (*statements[:-1], replace(last, sql=_text(_parsed(last.sql).distinct())))

    return replace(
        program,
        paths=tuple(replace(p, statements=change(p.statements)) for p in program.paths),
        shared=tuple(replace(p, statements=change(p.statements)) for p in program.shared),
    )


def _left_rows_forgotten(program: Program, plan: DeltaPlan) -> Program | None:
    """A difference of versions or files that takes only what came."""
    feeds = tuple(
        feed
        if feed.method == "feed"
        else replace(feed, sql=f"SELECT * FROM ({feed.sql}) AS f WHERE {WEIGHT} > 0")
        for feed in program.feeds
    )
    return None if feeds == program.feeds else replace(program, feeds=feeds)


# feeds --------------------------------------------------------------------------------------------


def _without(*kinds: str) -> Callable[[Feeds], Feeds | None]:
    def mutate(feeds: Feeds) -> Feeds | None:
        kept = {t: [e for e in events if e[0] not in kinds] for t, events in feeds.items()}
        return None if kept == feeds else kept

    return mutate


def _one_event_late(feeds: Feeds) -> Feeds | None:
    return {table: events[1:] for table, events in feeds.items()}


MUTANTS = (
    Mutant("every lookup reads this epoch", plan=_steps(_this)),
    Mutant("every lookup reads the previous epoch", plan=_steps(_previous)),
    Mutant("one lookup reads the wrong epoch", plan=_first_step(_this)),
    Mutant("one path dropped", plan=_last_path_dropped),
    Mutant("a self-join has one path", plan=_self_join_once),
    Mutant("a predicate dropped from one step", plan=_first_step(_without_predicate)),
    Mutant("NULL keys join", plan=_steps(_null_safe)),
    Mutant("filters judge the new image only", program=_new_image_only),
    Mutant("weights made absolute", program=_absolute),
    Mutant("change made distinct", program=_distinct_change),
    Mutant("paths made distinct", program=_distinct_paths),
    Mutant("rows that left are forgotten", program=_left_rows_forgotten),
    Mutant("deletes ignored", feed=_without("delete")),
    Mutant("old images ignored", feed=_without("update_preimage")),
    Mutant("feed starts one late", feed=_one_event_late),
)
