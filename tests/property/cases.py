"""A random case: tables with rows, one join query, and a history of epochs.

A case is a plain value that a seed gives back and that survives JSON. Its query is kept in parts,
so that a shrinker can drop one, or as text; `render_sql` gives it. Rows have an identity of their
own (`rid`), which no query can see: a history names rows by it, so duplicates stay duplicates.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any

Value = int | str | Decimal | datetime.date | None
Row = tuple[Value, ...]
Ref = tuple[str, str]
State = dict[str, dict[int, Row]]


@dataclass(frozen=True)
class Table:
    """A source: columns with Spark types, a declared unique key or none, its first rows."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    rows: tuple[tuple[int, Row], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


@dataclass(frozen=True)
class Relation:
    """One occurrence. `wrap`: "" a plain table, "cte" or "derived" a subselect with a filter.

    `renames` are the columns that a subselect gives out, in order; `join`: on | comma | cross.
    """

    alias: str
    table: str
    join: str = "on"
    wrap: str = ""
    filter: str = ""
    renames: tuple[str, ...] = ()


@dataclass(frozen=True)
class Predicate:
    """A conjunct with its columns left open: `{0} = {1}`; `place`: on | where | using."""

    template: str
    refs: tuple[Ref, ...]
    place: str = "on"


@dataclass(frozen=True)
class Output:
    """A projection; without a name it is the plain column itself."""

    template: str
    refs: tuple[Ref, ...]
    name: str = ""


@dataclass(frozen=True)
class Change:
    """One row's change: an insert (`row`, new rid), an update (`row`) or a delete (no row)."""

    kind: str
    rid: int
    row: Row = ()


@dataclass(frozen=True)
class Commit:
    """Changes of one table that are committed together, at most one per row."""

    table: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Case:
    """Everything that one run of the oracle needs; the epochs are lists of commits."""

    seed: int
    tables: tuple[Table, ...]
    relations: tuple[Relation, ...]
    predicates: tuple[Predicate, ...]
    outputs: tuple[Output, ...]
    epochs: tuple[tuple[Commit, ...], ...]
    grouped: int = 0
    flip_case: bool = False
    note: str = ""
    query: str = ""

    def table(self, name: str) -> Table:
        return next(t for t in self.tables if t.name == name)

    def initial(self) -> State:
        return {t.name: dict(t.rows) for t in self.tables}


# history ------------------------------------------------------------------------------------------


def play(state: State, commit: Commit) -> tuple[State, list[tuple[str, Row]]]:
    """The state after a commit, and what the table's change feed says of it.

    Changes of rows that are not there (a shrinker dropped them) are passed over.
    """
    rows = dict(state[commit.table])
    feed: list[tuple[str, Row]] = []
    for change in commit.changes:
        old = rows.pop(change.rid, None)
        if (old is None) != (change.kind == "insert"):
            if old is not None:
                rows[change.rid] = old
            continue
        if change.kind == "insert":
            feed.append(("insert", change.row))
        elif change.kind == "delete":
            assert old is not None
            feed.append(("delete", old))
        else:
            assert old is not None
            feed += [("update_preimage", old), ("update_postimage", change.row)]
        if change.kind != "delete":
            rows[change.rid] = change.row
    return {**state, commit.table: rows}, feed


def keys_hold(case: Case) -> bool:
    """True when every declared key is unique at the start and after every epoch."""
    state = case.initial()
    for epoch in ((), *case.epochs):
        for commit in epoch:
            state, _ = play(state, commit)
        for table in case.tables:
            at = [table.names.index(name) for name in table.key]
            keys = [tuple(row[i] for i in at) for row in state[table.name].values()]
            if table.key and len(set(keys)) < len(keys):
                return False
    return True


# SQL ----------------------------------------------------------------------------------------------


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class _Sql:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.inside: tuple[str, ...] = ()
        if 1 < case.grouped < len(case.relations):
            self.inside = tuple(r.alias for r in case.relations[: case.grouped])

    def name(self, name: str) -> str:
        """A name as a lazy user writes it: bare where it can be, perhaps in another case."""
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name.lower() in ("order", "date"):
            return quote(name)
        return name.swapcase() if self.case.flip_case else name

    def relation(self, alias: str) -> Relation:
        return next(r for r in self.case.relations if r.alias == alias)

    def exposed(self, ref: Ref) -> str:
        relation = self.relation(ref[0])
        if not relation.wrap:
            return ref[1]
        return relation.renames[self.case.table(relation.table).names.index(ref[1])]

    def columns(self) -> set[str]:
        """The columns of all relations, as they are seen; in lower case."""
        tables = [(r.alias, self.case.table(r.table).names) for r in self.case.relations]
        return {self.exposed((a, name)).lower() for a, names in tables for name in names}

    def ref(self, ref: Ref, outside: bool = True) -> str:
        if outside and ref[0] in self.inside:
            return f"g.{self.name(self.grouped_name(ref))}"
        return f"{self.name(ref[0])}.{self.name(self.exposed(ref))}"

    def grouped_name(self, ref: Ref) -> str:
        return f"{self.inside.index(ref[0])}_{self.exposed(ref)}"

    def fill(self, part: Predicate | Output, outside: bool = True) -> str:
        text = part.template
        for number, ref in enumerate(part.refs):
            text = text.replace(f"{{{number}}}", self.ref(ref, outside))
        return text

    def item(self, relation: Relation) -> str:
        alias = self.name(relation.alias)
        if relation.wrap == "cte":
            return f"{self.name(_cte_name(relation))} AS {alias}"
        if relation.wrap == "derived":
            return f"({self.subselect(relation)}) AS {alias}"
        same = relation.alias == relation.table
        return self.name(relation.table) + ("" if same else f" AS {alias}")

    def subselect(self, relation: Relation) -> str:
        names = self.case.table(relation.table).names
        columns = ", ".join(
            self.name(old) if old == new else f"{self.name(old)} AS {self.name(new)}"
            for old, new in zip(names, relation.renames, strict=True)
        )
        where = f" WHERE {relation.filter}" if relation.filter else ""
        return f"SELECT {columns} FROM {self.name(relation.table)}{where}"

    def joins(self, relations: tuple[Relation, ...], outside: bool) -> str:
        """FROM and WHERE over some relations; the grouped ones stand as one item when outside."""
        start = [r.alias for r in relations]
        bound = set(self.inside) if outside else set()
        from_, where = ["g"] if bound else [], []
        todo = [
            p
            for p in self.case.predicates
            if outside != (bool(p.refs) and {a for a, _ in p.refs} <= set(self.inside))
        ]
        for relation in relations:
            bound.add(relation.alias)
            mine = [p for p in todo if {a for a, _ in p.refs} <= bound]
            todo = [p for p in todo if p not in mine]
            first = not from_
            using = [p for p in mine if p.place == "using" and not self.inside and not first]
            late = [p for p in mine if first or relation.join != "on" or p.place == "where"]
            on = [p for p in mine if p not in using and p not in late]
            if using and on:
                late, on = late + on, []
            where += [self.fill(p, outside) for p in late if p not in using]
            text = self.item(relation)
            if first:
                from_.append(text)
            elif relation.join == "comma":
                from_.append(f", {text}")
                where += [self.fill(p, outside) for p in using]
            elif relation.join == "cross":
                from_.append(f" CROSS JOIN {text}")
                where += [self.fill(p, outside) for p in using]
            elif using and relation.alias.lower() not in self.columns():
                columns = ", ".join(self.name(self.exposed(p.refs[1])) for p in using)
                from_.append(f" JOIN {text} USING ({columns})")
            elif on or using:  # beside USING, `k.d` may be a field of a column `k`
                conjuncts = " AND ".join(_wrapped(self.fill(p, outside)) for p in on or using)
                from_.append(f" JOIN {text} ON {conjuncts}")
            else:
                from_.append(f" CROSS JOIN {text}")
        where += [self.fill(p, outside) for p in todo]
        assert start or outside
        text = "FROM " + "".join(from_)
        return text + (" WHERE " + " AND ".join(map(_wrapped, where)) if where else "")

    def group(self) -> str:
        members = self.case.relations[: self.case.grouped]
        columns = ", ".join(
            f"{self.ref((r.alias, name), False)} AS {self.name(self.grouped_name((r.alias, name)))}"
            for r in members
            for name in self.case.table(r.table).names
        )
        return f"SELECT {columns} {self.joins(members, False)}"

    def output(self, output: Output) -> str:
        text = self.fill(output)
        return f"{text} AS {self.name(output.name)}" if output.name else text

    def render(self) -> str:
        ctes: dict[str, str] = {}
        for relation in self.case.relations:
            if relation.wrap == "cte":
                ctes.setdefault(_cte_name(relation), self.subselect(relation))
        if self.inside:
            ctes["g"] = self.group()
        names = [f"{self.name(name)} AS ({sql})" for name, sql in ctes.items()]
        head = f"WITH {', '.join(names)} " if names else ""
        rest = self.case.relations[len(self.inside) :]
        columns = ", ".join(self.output(o) for o in self.case.outputs)
        return f"{head}SELECT {columns} {self.joins(rest, True)}"


def render_sql(case: Case) -> str:
    """The case's query as Spark SQL."""
    return case.query or _Sql(case).render()


def _cte_name(relation: Relation) -> str:
    mark = hashlib.sha256(repr((relation.filter, relation.renames)).encode()).hexdigest()[:4]
    return f"of_{relation.table}_{mark}"


def _wrapped(text: str) -> str:
    return f"({text})" if " OR " in text.upper() else text


# JSON ---------------------------------------------------------------------------------------------


def to_json(case: Case) -> str:
    """The case as JSON, one part a line."""

    def plain(value: Any) -> Any:
        return {"of": type(value).__name__, "is": str(value)}

    def line(value: Any) -> str:
        return json.dumps(value, default=plain, ensure_ascii=False)

    parts = []
    for key, value in asdict(case).items():
        text = line(value)
        if isinstance(value, (list, tuple)) and value:
            text = "[\n  " + ",\n  ".join(line(item) for item in value) + "\n ]"
        parts.append(f' "{key}": {text}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def from_json(text: str) -> Case:
    def value(item: Any) -> Value:
        if not isinstance(item, dict):
            return item
        kind = {"Decimal": Decimal, "date": datetime.date.fromisoformat}[item["of"]]
        return kind(item["is"])

    def row(items: Any) -> Row:
        return tuple(value(item) for item in items)

    data = json.loads(text)
    tables = tuple(
        Table(
            name=t["name"],
            columns=tuple((n, k) for n, k in t["columns"]),
            key=tuple(t["key"]),
            rows=tuple((rid, row(r)) for rid, r in t["rows"]),
        )
        for t in data.pop("tables")
    )
    epochs = tuple(
        tuple(
            Commit(
                c["table"], tuple(Change(h["kind"], h["rid"], row(h["row"])) for h in c["changes"])
            )
            for c in epoch
        )
        for epoch in data.pop("epochs")
    )
    relations = tuple(
        Relation(**{**r, "renames": tuple(r["renames"])}) for r in data.pop("relations")
    )
    predicates = tuple(
        Predicate(p["template"], tuple((a, c) for a, c in p["refs"]), p["place"])
        for p in data.pop("predicates")
    )
    outputs = tuple(
        Output(o["template"], tuple((a, c) for a, c in o["refs"]), o["name"])
        for o in data.pop("outputs")
    )
    return Case(
        tables=tables,
        relations=relations,
        predicates=predicates,
        outputs=outputs,
        epochs=epochs,
        **data,
    )


def digest(case: Case) -> str:
    """A short name for the case's content."""
    content = to_json(replace(case, seed=0, note=""))
    return hashlib.sha256(content.encode()).hexdigest()[:12]


# smaller forms ------------------------------------------------------------------------------------


def smaller(case: Case) -> Iterator[Case]:
    """Cases with one part less, the large parts first."""
    yield from _fewer_epochs(case)
    if not case.query:
        yield from _fewer_relations(case)
        yield from _plainer_query(case)
    for at, table in enumerate(case.tables):
        if table.key:
            yield _with_table(case, at, replace(table, key=()))
        for i in range(len(table.rows)):
            fewer = table.rows[:i] + table.rows[i + 1 :]
            yield _with_table(case, at, replace(table, rows=fewer))


def _plainer_query(case: Case) -> Iterator[Case]:
    for part in ("predicates", "outputs"):
        items = getattr(case, part)
        for at in range(len(items)):
            yield replace(case, **{part: items[:at] + items[at + 1 :]})
    if case.grouped:
        yield replace(case, grouped=0)
    if case.flip_case:
        yield replace(case, flip_case=False)
    for at, relation in enumerate(case.relations):
        if relation.wrap:
            yield _with_relation(case, at, replace(relation, wrap="", filter="", renames=()))
        if relation.join != "on":
            yield _with_relation(case, at, replace(relation, join="on"))


def _fewer_epochs(case: Case) -> Iterator[Case]:
    epochs = case.epochs
    for e, epoch in enumerate(epochs):
        if len(epochs) > 1:
            yield replace(case, epochs=epochs[:e] + epochs[e + 1 :])
        if e + 1 < len(epochs):
            yield replace(case, epochs=(*epochs[:e], epoch + epochs[e + 1], *epochs[e + 2 :]))
        for c, commit in enumerate(epoch):
            without = epoch[:c] + epoch[c + 1 :]
            yield replace(case, epochs=(*epochs[:e], without, *epochs[e + 1 :]))
            if len(commit.changes) < 2:
                continue
            for i in range(len(commit.changes)):
                less = replace(commit, changes=commit.changes[:i] + commit.changes[i + 1 :])
                new = (*epoch[:c], less, *epoch[c + 1 :])
                yield replace(case, epochs=(*epochs[:e], new, *epochs[e + 1 :]))


def _fewer_relations(case: Case) -> Iterator[Case]:
    for at, relation in enumerate(case.relations):
        kept = case.relations[:at] + case.relations[at + 1 :]
        if len(kept) < 2:
            return
        gone = relation.alias

        def stays(part: Predicate | Output, gone: str = gone) -> bool:
            return all(alias != gone for alias, _ in part.refs)

        outputs = tuple(o for o in case.outputs if stays(o))
        used = {r.table for r in kept}
        yield replace(
            case,
            relations=kept,
            predicates=tuple(p for p in case.predicates if stays(p)),
            outputs=outputs or (Output("1", (), "one"),),
            tables=tuple(t for t in case.tables if t.name in used),
            epochs=tuple(tuple(c for c in e if c.table in used) for e in case.epochs),
            grouped=0,
        )


def _with_relation(case: Case, at: int, relation: Relation) -> Case:
    return replace(case, relations=(*case.relations[:at], relation, *case.relations[at + 1 :]))


def _with_table(case: Case, at: int, table: Table) -> Case:
    return replace(case, tables=(*case.tables[:at], table, *case.tables[at + 1 :]))
