"""What is joined: relations, predicates, projections. Nothing here says in which order.

A relation is one occurrence of a table (a table used twice is two relations). Every conjunct of
every inner ON, USING and WHERE is one predicate:

    filter    touches one relation            f.dep_delay > 15
    edge      equates columns of two          f.tailnum = p.tailnum
    residual  anything else over several      a.x <= b.y,  a.x + b.y > c.z
    constant  touches none                    1 = 1
    cross     always true: it links two relations that no other predicate connects

Expressions are Spark SQL text whose columns are always `relation`.`column` in backticks, so a
predicate can be placed anywhere those relations are bound.

A query is one block: items joined inner under predicates. An item is a relation or an outer, semi
or anti join of two further blocks:

    o JOIN c LEFT JOIN (a JOIN b)       Block(items=(Join(left, Block(o, c), Block(a, b)),))

A predicate of a block may touch relations on the null-supplied side of a join among its items; it
then judges the joined row, and may neither be pushed below that join nor reordered across it.
A subquery that makes groups stands as a relation over a derived source: the rows of a further
graph. Caller: builds with `sql.bind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from deltajoin.layers import INPUT, Generation, Windowing

ColumnRef = tuple[str, str]


@dataclass(frozen=True)
class Relation:
    """One occurrence of a source table; `columns` are those the query uses."""

    name: str
    source: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Predicate:
    """One conjunct; `left` and `right` are set for an edge only, `linked` for a cross."""

    sql: str
    kind: str
    refs: tuple[ColumnRef, ...]
    left: ColumnRef | None = None
    right: ColumnRef | None = None
    linked: tuple[str, ...] = ()

    @cached_property
    def relations(self) -> frozenset[str]:
        """Names of the relations it touches."""
        return frozenset((*self.linked, *(relation for relation, _ in self.refs)))


@dataclass(frozen=True)
class Projection:
    """One output column; `column` is set when it is a plain column of a relation."""

    name: str
    sql: str
    refs: tuple[ColumnRef, ...]
    column: ColumnRef | None = None


@dataclass(frozen=True)
class Stamp:
    """An output column without columns in it that moves with the clock or the run.

    `position` is its place among all outputs. It is no part of the rows that are kept.
    """

    name: str
    sql: str
    position: int


@dataclass(frozen=True)
class Join:
    """A join that is not inner: `kind` is left, full, semi or anti; a right join is turned round.

    Above a semi or anti join only the left side's columns exist. Of kind union, it is all rows of
    both sides, as columns of `name`: `outputs` are (column, what it is on the left, on the right).
    """

    kind: str
    left: Block
    right: Block
    on: tuple[Predicate, ...]
    name: str = ""
    outputs: tuple[tuple[str, str, str], ...] = ()

    @property
    def relations(self) -> tuple[str, ...]:
        """Names of all relations below, as written; that of a union too."""
        own = (self.name,) if self.name else ()
        return (*self.left.relations, *self.right.relations, *own)

    def only(self, keep: Callable[[Predicate], bool]) -> Join:
        """The join with some of its predicates, without what a union's columns stand for."""
        on = tuple(filter(keep, self.on))
        return Join(self.kind, self.left.only(keep), self.right.only(keep), on)


@dataclass(frozen=True)
class Block:
    """Items joined inner: relation names and joins, under conjuncts that hold on every row."""

    items: tuple[str | Join, ...]
    predicates: tuple[Predicate, ...]

    @property
    def relations(self) -> tuple[str, ...]:
        """Names of all relations below, as written."""
        below = ((item,) if isinstance(item, str) else item.relations for item in self.items)
        return tuple(name for names in below for name in names)

    def only(self, keep: Callable[[Predicate], bool]) -> Block:
        """The block with some of its predicates."""
        items = tuple(i if isinstance(i, str) else i.only(keep) for i in self.items)
        return Block(items, tuple(filter(keep, self.predicates)))


@dataclass(frozen=True)
class Attachment:
    """A left, semi or anti join onto everything that stands before it in its core."""

    kind: str
    core: Core
    on: tuple[Predicate, ...]


@dataclass(frozen=True)
class Core:
    """The normal form of a block: relations joined inner, then attachments, one after the other.

    Predicates that touch an attachment judge the joined row, once all attachments are done. Columns
    of `nulls` are NULL: the branch of a full join that holds the other side's unmatched rows.
    `projections` are the output columns where branches differ in them, below a union; `given` are
    what columns of a union stand for, while the normal form is made.
    """

    relations: tuple[str, ...]
    predicates: tuple[Predicate, ...]
    attachments: tuple[Attachment, ...] = ()
    nulls: tuple[str, ...] = ()
    projections: tuple[Projection, ...] = ()
    given: tuple[tuple[ColumnRef, str], ...] = ()

    @cached_property
    def inner(self) -> frozenset[str]:
        """The relations joined inner."""
        return frozenset(self.relations)

    @cached_property
    def everything(self) -> tuple[str, ...]:
        """Names of all relations below."""
        below = (name for a in self.attachments for name in a.core.everything)
        return (*self.relations, *below)

    def all_predicates(self) -> Iterator[Predicate]:
        """Its own, those of its attachments' conditions, and theirs."""
        yield from self.predicates
        for attachment in self.attachments:
            yield from (*attachment.on, *attachment.core.all_predicates())

    @cached_property
    def early(self) -> tuple[Predicate, ...]:
        """Predicates over the inner relations alone, constants among them."""
        return tuple(p for p in self.predicates if p.relations <= self.inner)

    @cached_property
    def late(self) -> tuple[Predicate, ...]:
        """Predicates that wait for the attachments."""
        return tuple(p for p in self.predicates if not p.relations <= self.inner)

    @cached_property
    def is_connected(self) -> bool:
        """True when inner predicates alone link all inner relations."""
        return len(components(self.relations, (p.relations for p in self.early))) == 1


@dataclass(frozen=True)
class Grouping:
    """GROUP BY on top: `keys` are the projections that are grouped by; a total has none.

    `outputs` are (name, expression) over the projections, as columns of `input`; `key_outputs` are
    the names under which the keys are stored, hidden ones too; of a total that of a constant.
    """

    keys: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    having: str | None
    key_outputs: tuple[str, ...]

    @property
    def conditions(self) -> tuple[str, ...]:
        """HAVING, where there is one."""
        return (self.having,) if self.having else ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All expressions over the rows below."""
        keys = (f"`{INPUT}`.`{key}`" for key in self.keys)
        return (*(sql for _, sql in self.outputs), *keys, *self.conditions)

    @property
    def hidden_keys(self) -> tuple[str, ...]:
        """Stored names of keys that the query does not give out."""
        given = {name for name, _ in self.outputs}
        return tuple(name for name in self.key_outputs if name not in given)


@dataclass(frozen=True)
class Derived:
    """A source whose rows are those of a query; `name` is like no table's.

    One that reads no table has a `text` which gives those rows, their `types` (empty where not
    certain) and about how many `rows`; its graph says no more than the names of its columns. One
    that is `clocked` is a relation under conditions on the clock, or a text that reads it. One that
    gives neighbours for an ASOF join says which rows that takes (`asof`).
    """

    name: str
    graph: JoinGraph
    text: str = ""
    types: tuple[tuple[str, str], ...] = ()
    rows: int = 0
    clocked: bool = False
    asof: str = ""

    @property
    def exactly_one_row(self) -> bool:
        """True for a total, and for one row of literals."""
        groups = self.graph.grouping
        total = groups is not None and not groups.keys and groups.having is None
        return total or (bool(self.text) and self.rows == 1)

    @property
    def at_most_one_row(self) -> bool:
        """True also for a total that HAVING may turn away."""
        groups = self.graph.grouping
        return self.exactly_one_row or (groups is not None and not groups.keys)


@dataclass(frozen=True)
class JoinGraph:
    """A bound query: its relations, the root block's predicates, the output columns.

    `joins` are the items of the root block that are not plain relations, `cores` the same query in
    normal form; both are empty when every join is inner. `derived` are those of its sources that
    are queries, `copies` further occurrences, where a core holds one relation more than once. In
    `joins` a union has no name any more, and what is said of its columns is left out; `projections`
    are then those of the first branch. `stamps` stand beside what all others give out.
    """

    relations: tuple[Relation, ...]
    predicates: tuple[Predicate, ...]
    projections: tuple[Projection, ...]
    joins: tuple[Join, ...] = ()
    cores: tuple[Core, ...] = ()
    grouping: Grouping | None = None
    derived: tuple[Derived, ...] = ()
    generation: Generation | None = None
    windowing: Windowing | None = None
    copies: tuple[Relation, ...] = ()
    stamps: tuple[Stamp, ...] = ()

    @property
    def is_plain(self) -> bool:
        """True for inner joins with nothing made of their rows."""
        return not (self.cores or self.grouping or self.generation or self.windowing)

    @property
    def layers(self) -> tuple[Generation | Grouping | Windowing, ...]:
        """What is made of the joined rows, from below."""
        made = (self.generation, self.grouping, self.windowing)
        return tuple(layer for layer in made if layer is not None)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the columns that the query gives out."""
        if self.grouping is not None:
            return tuple(name for name, _ in self.grouping.outputs)
        layer = self.windowing or self.generation
        return tuple(p.name for p in (layer.outputs if layer else self.projections))

    @property
    def row_names(self) -> tuple[str, ...]:
        """Columns of the rows that groups, windows or the target read."""
        layer = self.generation
        return tuple(p.name for p in (layer.outputs if layer else self.projections))

    @property
    def part_keys(self) -> tuple[str, ...]:
        """Columns whose values tell which rows are computed together: in a group, a partition."""
        layer = self.grouping or self.windowing
        return layer.keys if layer else ()

    def part_entries(self, core: Core) -> tuple[tuple[str, Projection], ...]:
        """The part keys that the joined rows of a branch give out themselves."""
        by_name = {p.name: p for p in self.outputs(core)}
        below = {name: name for name in by_name}
        if self.generation is not None:
            below = {o.name: o.column for o in self.generation.outputs if o.column}
        return tuple((key, by_name[below[key]]) for key in self.part_keys if key in below)

    @property
    def branches(self) -> tuple[Core, ...]:
        """The query as a sum of normal forms: one, and more for full joins and unions."""
        plain = Core(tuple(r.name for r in self.relations), self.predicates)
        return self.cores or (plain,)

    @property
    def has_union(self) -> bool:
        """True where branches give out different expressions."""
        return any(core.projections for core in self.cores)

    @cached_property
    def occurrences(self) -> tuple[Relation, ...]:
        """The relations, and their copies."""
        return self.relations + self.copies

    def outputs(self, core: Core) -> tuple[Projection, ...]:
        """The output columns of a branch."""
        return core.projections or self.projections

    def inner_part(self, core: Core) -> JoinGraph:
        """A core's inner joins as a graph of their own; of a part, without outputs."""
        if not self.cores:
            return self
        relations = tuple(r for r in self.occurrences if r.name in core.inner)
        return JoinGraph(relations, core.early, ())

    @cached_property
    def root(self) -> Block:
        """The query as a block."""
        below = {name for join in self.joins for name in join.relations}
        plain = tuple(r.name for r in self.relations if r.name not in below)
        return Block((*plain, *self.joins), self.predicates)

    @cached_property
    def by_name(self) -> dict[str, Relation]:
        """Relation by its name, copies included."""
        return {relation.name: relation for relation in self.occurrences}

    @cached_property
    def all_derived(self) -> tuple[Derived, ...]:
        """Every derived source at any depth, each after those that it reads."""
        found: dict[str, Derived] = {}
        for derived in self.derived:
            found |= {below.name: below for below in derived.graph.all_derived}
            found[derived.name] = derived
        return tuple(found.values())

    @cached_property
    def parts(self) -> tuple[JoinGraph, ...]:
        """The graphs of all derived sources, and this one last."""
        return (*(derived.graph for derived in self.all_derived), self)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Names of the source tables, sorted, each once; those of derived sources too."""
        found = {relation.source for part in self.parts for relation in part.relations}
        return tuple(sorted(found - {derived.name for derived in self.all_derived}))

    def used_columns(self, source: str) -> tuple[str, ...]:
        """Columns of a source that any relation at any depth uses, in first-use order."""
        used = (r.columns for part in self.parts for r in part.relations if r.source == source)
        return tuple(dict.fromkeys(column for columns in used for column in columns))

    def judged_columns(self, source: str) -> tuple[str, ...]:
        """Columns of a source that joins or filters at any depth speak of, sorted."""
        found = {
            column
            for part in self.parts
            for core in part.branches
            for predicate in core.all_predicates()
            for name, column in predicate.refs
            if part.by_name[name].source == source
        }
        return tuple(sorted(found))

    def decidable(self, bound: frozenset[str], new: str) -> tuple[Predicate, ...]:
        """Conditions that become decidable when `new` joins what is bound (filters included)."""
        after = bound | {new}
        touching = self._touching.get(new, ())
        return tuple(p for p in touching if p.relations <= after and p.kind != "cross")

    @cached_property
    def _touching(self) -> dict[str, tuple[Predicate, ...]]:
        """Relation -> the predicates over it, as written."""
        found: dict[str, tuple[Predicate, ...]] = {}
        for predicate in self.predicates:
            for name in predicate.relations:
                found[name] = (*found.get(name, ()), predicate)
        return found

    def neighbours(self, bound: frozenset[str]) -> tuple[str, ...]:
        """Relations outside `bound` that share a predicate with it, sorted."""
        reached = (p.relations for p in self.predicates if p.relations & bound)
        return tuple(sorted(frozenset().union(*reached) - bound))

    @cached_property
    def equivalence(self) -> dict[ColumnRef, frozenset[ColumnRef]]:
        """Column -> all columns that the edges equate with it, itself included."""
        classes: dict[ColumnRef, frozenset[ColumnRef]] = {}
        for predicate in self.predicates:
            if predicate.left is not None and predicate.right is not None:
                sides = (predicate.left, predicate.right)
                merged = frozenset().union(*(classes.get(side, {side}) for side in sides))
                classes.update(dict.fromkeys(merged, merged))
        return classes

    def equated(self, column: ColumnRef) -> frozenset[ColumnRef]:
        """The equivalence class of a column."""
        return self.equivalence.get(column, frozenset({column}))


def components(
    names: Iterable[str], links: Iterable[frozenset[str]]
) -> tuple[tuple[str, ...], ...]:
    """Groups of names that links hold together, sorted.

    Example:
        >>> components("abcd", [frozenset("ab"), frozenset("bd")])
        (('a', 'b', 'd'), ('c',))
    """
    groups = [{name} for name in sorted(names)]
    for link in links:
        together = [group for group in groups if group & link]
        if len(together) > 1:
            groups = [group for group in groups if not group & link]
            groups.append(set().union(*together))
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def with_stamps(names: tuple[str, ...], stamps: tuple[Stamp, ...]) -> tuple[str, ...]:
    """Output columns with stamps in their places.

    Example:
        >>> with_stamps(("a", "b"), (Stamp("now", "now()", 1),))
        ('a', 'now', 'b')
    """
    found = list(names)
    for stamp in stamps:
        found.insert(stamp.position, stamp.name)
    return tuple(found)


def refs_of(columns: Iterable[ColumnRef]) -> tuple[ColumnRef, ...]:
    """Sorted, distinct column references."""
    return tuple(sorted(set(columns)))
