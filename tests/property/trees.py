"""Seed -> a case whose query is a random tree of inner, outer, semi and anti joins, as text.

Tables and histories are those of `generate`; the query nests up to five relations in any order,
with residuals and one-sided conjuncts in ON, conditions without an equality or that connect
nothing, cross joins, filters that do and don't reject NULL in WHERE, EXISTS and IN with their
negations, derived tables with computed columns, unions on top or as derived tables, rows of
literals, and scalar subqueries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from tests.property.cases import Case, Change, Commit, Row, Table, quote
from tests.property.generate import NUMBERS, TUNED, Profile, _Generator

KINDS = (("inner", 26), ("left", 36), ("right", 7), ("full", 14), ("semi", 11), ("anti", 12))
_TEXT = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}
Columns = list[tuple[str, str]]


@dataclass(frozen=True)
class Tree:
    """Text of a FROM item, its visible columns (text, sort), and key columns among them."""

    text: str
    columns: Columns
    keys: tuple[str, ...]
    single: bool


def generate_tree(seed: int, profile: Profile = TUNED, attempt: int = 0) -> Case:
    """The case of a seed; further attempts are for those who reject a case."""
    return _Trees(seed, profile, attempt).case()


def generate_groups(seed: int, profile: Profile = TUNED, attempt: int = 0) -> Case:
    """As `generate_tree`, always with aggregates or DISTINCT."""
    trees = _Trees(seed, profile, attempt)
    trees.groups = 1.0
    return trees.case()


class _Trees(_Generator):
    def __init__(self, seed: int, profile: Profile, attempt: int) -> None:
        super().__init__(seed, replace(profile, hard_names=False), attempt)
        self.random = Random(f"deltajoin:trees:{seed}:{attempt}")
        letters = "abcefghijlmnopqrtuvwxyz"
        self.aliases = iter([*letters, *(f"{letter}a" for letter in letters)])
        self.kinds: dict[str, str] = {}
        self.depth = 0
        self.groups = 0.35
        self.nested = 2
        self.sorts = 1
        self.inner = self.chance(0.15)
        self.crossed = 0.35 if self.chance(0.12) else 0.0
        self.scalars = self.literals = 0.0
        if self.chance(0.12):
            self.scalars, self.literals = 0.5, 0.25

    def case(self) -> Case:
        count = self.random.choices((2, 3, 4, 5), weights=(30, 36, 24, 10))[0]
        self.make_tables(count)
        case = Case(self.seed, tuple(self.tables), (), (), (), (), query=self.query(count))
        if self.chance(0.7):  # histories that the query sees
            self.tables = [t for t in self.tables if quote(t.name) in case.query]
        epochs = self.make_epochs(case)
        if self.sorts == 2 and self.chance(0.4):
            epochs = _inserts(self.tables, epochs)
        return replace(case, epochs=epochs)

    def query(self, count: int) -> str:
        if self.chance(0.1):
            return self.union([self.tree(count - 1 or 1), self.tree(1)], self.chance(0.4))[0]
        tree = self.tree(count)
        where = [self.filter(tree) for _ in range(3) if self.chance(0.2)]
        if self.chance(0.15):
            where.append(self.subquery(tree))
        numbers = [name for name, sort in tree.columns if sort == "number"]
        if numbers and self.chance(self.scalars):
            operator = self.random.choice(("=", "<=", ">", "<>"))
            where.append(f"{self.random.choice(numbers)} {operator} {self.scalar(tree)}")
        head, tail = self.grouped(tree) if self.chance(self.groups) else ("", "")
        text = f"SELECT {head or self.outputs_of(tree)} FROM {tree.text}"
        text += f" WHERE {' AND '.join(f'({w})' for w in where)}" if where else ""
        return text + tail

    def grouped(self, tree: Tree) -> tuple[str, str]:
        """The SELECT list and the end of a query with aggregates, or with DISTINCT."""
        if self.chance(0.15):
            return "DISTINCT " + self.outputs_of(tree), ""
        keys = []
        if not self.chance(0.1):
            for name, sort in self.random.sample(tree.columns, min(2, len(tree.columns))):
                if not keys or self.chance(0.35):
                    value = f"coalesce({name}, 0)" if self.chance(0.2) else name
                    keys.append(value if sort == "number" else name)
        names, shown = [], []
        for key in keys:
            if self.chance(0.8):
                shown.append(f"{key} AS g{len(shown)}")
                names.append(str(len(shown)) if self.chance(0.3) else key)
            else:
                names.append(key)
        self.sorts = self.random.choice((1, 2, 2) if self.inner else (1, 1, 1, 2, 3))
        made = [self.aggregate(tree) for _ in range(self.random.randint(1, 3))]
        shown += [f"{value} AS a{number}" for number, value in enumerate(made)]
        shown += ["count(*) AS n"] if self.chance(0.6) else []
        tail = " GROUP BY " + ", ".join(names) if names else ""
        if self.chance(0.25):
            tail += f" HAVING {self.having(tree)}"
        return ", ".join(shown), tail

    def having(self, tree: Tree) -> str:
        sorts, self.sorts = self.sorts, 1
        number = self.aggregate(tree)
        self.sorts = sorts
        return self.random.choice(("count(*) > 1", "count(*) < 3", f"coalesce({number}, 0) <> 2"))

    def aggregate(self, tree: Tree) -> str:
        """Of sort 1 what is linear, of sort 2 also extremes, of sort 3 also anything else."""
        numbers = [name for name, sort in tree.columns if sort == "number"]
        anything = self.random.choice(tree.columns)[0]
        calls = [
            f"count({anything})",
            "count(*)",
            f"count(CASE WHEN {anything} IS NULL THEN 1 END)",
        ]
        if self.sorts > 1:
            calls += [f"min({anything})", f"max({anything})"]
        if self.sorts > 2:
            calls += [f"count(DISTINCT {anything})", f"min(coalesce({anything}, {anything}))"]
        if numbers:
            one, two = self.random.choice(numbers), self.random.choice(numbers)
            calls += [f"sum({one})", f"sum({one} * 2 + {two})", f"sum(-{one})"]
            calls += [f"sum(CAST({one} AS BIGINT))", f"sum(CAST({two} AS DECIMAL(12, 3)))"]
            calls += [f"sum(CASE WHEN {one} > 1 THEN {two} END)", f"sum({one}) * 2 - count(*)"]
            calls += [f"sum({one}) FILTER (WHERE {two} > 1)", f"coalesce(sum({one}), 0) + 1"]
            if self.profile.averages:
                calls += [f"avg({one})", f"avg({two})", f"avg(CAST({one} AS DECIMAL(6, 1)))"]
            calls += [f"sum(DISTINCT {one})"] if self.sorts > 2 else []
        return self.random.choice(calls)

    def tree(self, count: int) -> Tree:
        if count == 1:
            return self.leaf()
        left = self.random.choices((count - 1, self.random.randint(1, count - 1)), (60, 40))[0]
        return self.join(self.tree(left), self.tree(count - left))

    def leaf(self) -> Tree:
        table = self.random.choice(self.tables)
        alias = next(self.aliases)
        if self.depth == 0 and self.chance(0.1):
            return self.united(alias)
        if self.chance(self.literals):
            return self.values(alias)
        columns = [(f"{alias}.{quote(n)}", _sort(k)) for n, k in table.columns]
        self.kinds |= {f"{alias}.{quote(n)}": k for n, k in table.columns}
        keys = tuple(f"{alias}.{quote(n)}" for n in table.key)
        text = f"{quote(table.name)} AS {alias}"
        if self.chance(0.12):
            text, extra = self.derived(table, alias)
            columns += extra
        if self.nested and self.chance(0.15):
            return self.groups_of(alias) if self.chance(0.7) else self.layer_of(alias)
        return Tree(text, columns, keys, True)

    def united(self, alias: str) -> Tree:
        """A derived table of a union, whose arms are tables and small joins."""
        self.depth = 1
        arms = [self.tree(self.random.choices((1, 2), (75, 25))[0]) for _ in range(2)]
        arms += [self.tree(1)] if self.chance(0.15) else []
        self.depth = 0
        text, kinds = self.union(arms, self.chance(0.25))
        columns = [(f"{alias}.o{i}", _sort(kind)) for i, kind in enumerate(kinds)]
        self.kinds |= {f"{alias}.o{i}": kind for i, kind in enumerate(kinds)}
        return Tree(f"({text}) AS {alias}", columns, (), True)

    def union(self, arms: list[Tree], distinct: bool) -> tuple[str, list[str]]:
        """SELECTs of some columns with matching types, and the types."""
        known = [c for c, _ in arms[0].columns if c in self.kinds]
        first = (known[:1] or ["1"]) + [c for c in known[1:] if self.chance(0.4)]
        kinds = [self.kinds.get(c, "int") for c in first]
        selects = []
        for number, arm in enumerate(arms):
            values = [
                one if not number else self.alike(arm, kind)
                for one, kind in zip(first, kinds, strict=True)
            ]
            shown = ", ".join(f"{value} AS o{i}" for i, value in enumerate(values))
            where = f" WHERE {self.filter(arm)}" if self.chance(0.25) else ""
            selects.append(f"SELECT {shown} FROM {arm.text}{where}")
        return f" UNION {'' if distinct else 'ALL '}".join(selects), kinds

    def alike(self, arm: Tree, kind: str) -> str:
        """Something of an arm that has a type, or a narrower one."""
        narrow = {"bigint": ("bigint", "int")}.get(kind, (kind,))
        found = [c for c, _ in arm.columns if self.kinds.get(c) in narrow]
        same = [c for c in found if c.split(".")[1] == "`k`"]
        if found and self.chance(0.93):
            name = self.random.choice(same or found)
            value = {"string": "'none'", "date": "DATE '2024-01-01'"}.get(
                kind, f"CAST(0 AS {kind})"
            )
            whole = self.kinds[name] == kind and self.chance(0.1)
            return f"coalesce({name}, {value})" if whole else name
        return f"CAST(NULL AS {kind})" if self.chance(0.6) else "NULL"

    def derived(self, table: Table, alias: str) -> tuple[str, Columns]:
        name, kind = self.random.choice(table.columns)
        value = "'none'" if kind == "string" else "DATE '2024-01-01'" if kind == "date" else "0"
        computed = self.random.choice((f"coalesce({quote(name)}, {value})", f"{value}"))
        names = ", ".join(quote(n) for n in table.names)
        text = f"(SELECT {names}, {computed} AS made FROM {quote(table.name)}"
        if self.chance(0.5):
            text += f" WHERE {self.filter_text(kind).replace('{0}', quote(name))}"
        return f"{text}) AS {alias}", [(f"{alias}.made", _sort(kind))]

    def groups_of(self, alias: str) -> Tree:
        """A derived table with GROUP BY or DISTINCT over a tree of one or two relations."""
        self.nested -= 1
        below = self.below_groups()
        keys = self.random.sample(below.columns, min(len(below.columns), 1 + self.chance(0.3)))
        shown = [f"{name} AS k{number}" for number, (name, _) in enumerate(keys)]
        columns = [(f"{alias}.k{number}", sort) for number, (_, sort) in enumerate(keys)]
        where = f" WHERE {self.filter(below)}" if self.chance(0.2) else ""
        known = {f"{alias}.k{n}": self.kinds.get(name) for n, (name, _) in enumerate(keys)}
        self.kinds |= {name: kind for name, kind in known.items() if kind}
        if self.chance(0.2):
            text = f"SELECT DISTINCT {', '.join(shown)} FROM {below.text}{where}"
            return Tree(f"({text}) AS {alias}", columns, (), True)
        for number in range(self.random.randint(1, 2)):
            value = self.aggregate(below)
            shown.append(f"{value} AS v{number}")
            if re.fullmatch(r"count\([^()]*\)", value):
                self.kinds[f"{alias}.v{number}"] = "bigint"
            numeric = not value.startswith(("min", "max", "avg"))
            columns += [(f"{alias}.v{number}", "number")] if numeric else []
        if self.chance(0.15):
            shown, columns = shown[1:], columns[1:]
        if not columns:
            shown, columns = [*shown, "count(*) AS n"], [(f"{alias}.n", "number")]
        text = f"SELECT {', '.join(shown)} FROM {below.text}{where}"
        text += f" GROUP BY {', '.join(name for name, _ in keys)}"
        if self.chance(0.2):
            text += f" HAVING {self.random.choice(('count(*) > 1', 'count(*) < 3'))}"
        return Tree(f"({text}) AS {alias}", columns, (), True)

    def below_groups(self) -> Tree:
        return self.tree(self.random.choice((1, 1, 2)))

    def layer_of(self, alias: str) -> Tree:
        """A derived table with a window, in part filtered by it, or with a generator."""
        self.nested -= 1
        table, below = self.random.choice(self.tables), next(self.aliases)
        names = [f"{below}.{quote(name)}" for name in table.names]
        shown = ", ".join(f"{name} AS c{n}" for n, name in enumerate(names))
        columns = [(f"{alias}.c{n}", _sort(k)) for n, (_, k) in enumerate(table.columns)]
        source = f"{quote(table.name)} AS {below}"
        one, two = self.random.choice(names), self.random.choice(names)
        if not table.key or self.chance(0.4):
            text = f"SELECT {shown}, v.item FROM {source} LATERAL VIEW OUTER "
            text += f"explode(CASE WHEN {one} IS NOT NULL THEN array({two}, {two}) END) v AS item"
            sort = columns[names.index(two)][1]
            return Tree(f"({text}) AS {alias}", [*columns, (f"{alias}.item", sort)], (), True)
        order = ", ".join([two, *(f"{below}.{quote(name)}" for name in table.key)])
        call = self.random.choice(("row_number()", "row_number()", "rank()", f"count({two})"))
        text = (
            f"SELECT {shown}, {call} OVER (PARTITION BY {one} ORDER BY {order}) AS n FROM {source}"
        )
        if self.chance(0.6):
            text = f"SELECT * FROM ({text}) AS q WHERE n = 1"
        return Tree(f"({text}) AS {alias}", [*columns, (f"{alias}.n", "number")], (), True)

    def join(self, left: Tree, right: Tree) -> Tree:
        names, weights = zip(*KINDS, strict=True)
        kind = "inner" if self.inner else self.random.choices(names, weights)[0]
        on = self.unconnected(right) if self.chance(self.crossed) else self.condition(left, right)
        inside = right.text if right.single else f"({right.text})"
        text = f"{left.text} {_TEXT[kind]} {inside} ON {on}"
        if kind == "inner" and on == "TRUE":
            text = f"{left.text} CROSS JOIN {inside}"
        if self.chance(0.1) and not left.single:
            text = f"({left.text}) {_TEXT[kind]} {inside} ON {on}"
        if kind in ("semi", "anti"):
            return Tree(text, left.columns, left.keys, False)
        return Tree(text, left.columns + right.columns, left.keys + right.keys, False)

    def unconnected(self, right: Tree) -> str:
        """A condition that connects nothing."""
        return self.random.choice(("TRUE", "TRUE", "1 = 1", f"({self.filter(right)})"))

    def pairs_of(self, left: Tree, right: Tree) -> list[tuple[str, str, str]]:
        return [(a, b, s) for a, s in left.columns for b, t in right.columns if s == t]

    def condition(self, left: Tree, right: Tree) -> str:
        pairs = self.pairs_of(left, right)
        if not pairs:
            return f"({left.columns[0][0]} IS NULL) = ({right.columns[0][0]} IS NULL)"
        alike = [p for p in pairs if p[0].split(".")[1] == p[1].split(".")[1]]
        one, two, sort = self.random.choice(alike if alike and self.chance(0.6) else pairs)
        if self.chance(0.06):
            return f"{one} {self.random.choice(('<', '<=', '>', '>=', '<>'))} {two}"
        parts = [f"{one} = {two}" if self.chance(0.9) else f"{two} <=> {one}"]
        more = [c for c, other in left.columns if other == sort and c != one]
        if more and self.chance(0.08):
            parts = [f"coalesce({one}, {self.random.choice(more)}) = {two}"]
        if sort == "number" and self.chance(0.06):
            parts = [f"coalesce({one}, 0) = {two}"]
        if self.chance(0.2):
            one, two, _ = self.random.choice(pairs)
            parts.append(f"{one} = {two}")
        if self.chance(0.25):
            one, two, sort = self.random.choice(pairs)
            parts.append(f"{one} {self.random.choice(('<=', '<>', '<'))} {two}")
        if self.chance(0.04):
            both = [f"(({self.filter(left)}) AND ({self.filter(right)}))" for _ in range(4)]
            parts.append(f"({' OR '.join(both)})")
        for side in (left, right):
            if self.chance(0.1):
                parts.append(f"({self.filter(side)})")
        return " AND ".join(parts)

    def filter(self, tree: Tree) -> str:
        name, sort = self.random.choice(tree.columns)
        kind = "int" if sort == "number" else sort
        choice = self.random.random()
        if choice < 0.2:
            return f"{name} IS NULL"
        if choice < 0.3 and sort == "number":
            return f"coalesce({name}, 1) = 1"
        return self.filter_text(kind).replace("{0}", name)

    def subquery(self, tree: Tree) -> str:
        inner = self.leaf()
        pairs = self.pairs_of(tree, inner) or [("1", "1", "")]
        one, two, _ = self.random.choice(pairs)
        negated = "NOT " if self.chance(0.4) else ""
        if self.chance(0.3):
            return (
                f"{one} {negated}IN (SELECT {two} FROM {inner.text}{self.of_in(two, tree, inner)})"
            )
        also = f" AND ({self.filter(inner)})" if self.chance(0.3) else ""
        return f"{negated}EXISTS (SELECT 1 FROM {inner.text} WHERE {one} = {two}{also})"

    def scalar(self, tree: Tree) -> str:
        """A total over a table, in part of the rows that equal the row around it."""
        table, alias = self.random.choice(self.tables), next(self.aliases)
        columns = [(f"{alias}.{quote(name)}", kind) for name, kind in table.columns]
        numbers = [name for name, kind in columns if kind in NUMBERS] or ["1"]
        number = self.random.choice(numbers)
        calls = ("count(*)", f"count({number})", f"max({number})", f"coalesce(min({number}), 1)")
        where = []
        pairs = [
            (a, b) for a, _ in tree.columns for b, kind in columns if self.kinds.get(a) == kind
        ]
        # an alias around that is a column inside would mean a field of that column
        pairs = [(a, b) for a, b in pairs if a.split(".")[0] not in table.names]
        if pairs and self.chance(0.5):
            one, two = self.random.choice(pairs)
            where.append(f"{one} = {two}")
        if self.chance(0.3):
            name, kind = self.random.choice(columns)
            where.append(self.filter_text(kind).replace("{0}", name))
        text = f"SELECT {self.random.choice(calls)} FROM {quote(table.name)} AS {alias}"
        return f"({text}{' WHERE ' if where else ''}{' AND '.join(where)})"

    def values(self, alias: str) -> Tree:
        """Rows of literals: VALUES, a generator, or one row."""
        columns = [(f"{alias}.x", "number"), (f"{alias}.y", "number")]
        self.kinds |= {name: "int" for name, _ in columns}
        rows = [[self.random.choice(("1", "2", "3", "5")) for _ in "xy"] for _ in range(3)]
        if self.chance(0.4):
            shown = ", ".join(f"({', '.join(row)})" for row in rows[: self.random.randint(1, 3)])
            text = f"(SELECT * FROM VALUES {shown} AS v(x, y)) AS {alias}"
            return Tree(text, columns, (), True)
        if self.chance(0.4):
            text = f"(SELECT explode(sequence({rows[0][0]}, 5)) AS x) AS {alias}"
            return Tree(text, columns[:1], (), True)
        return Tree(f"(SELECT {rows[0][0]} AS x, {rows[0][1]} AS y) AS {alias}", columns, (), True)

    def of_in(self, member: str, tree: Tree, inner: Tree) -> str:
        """The WHERE of a subquery under IN; often none."""
        parts = [f"{member} IS NOT NULL"] if self.chance(0.25) else []
        if self.chance(0.25):
            one, two, _ = self.random.choice(self.pairs_of(tree, inner) or [("1", "1", "")])
            parts.append(f"{one} = {two}")
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def outputs_of(self, tree: Tree) -> str:
        wanted = [c for c, _ in tree.columns if c in tree.keys and self.chance(0.93)]
        wanted += [c for c, _ in tree.columns if c not in wanted and self.chance(0.5)]
        wanted = wanted or [tree.columns[0][0]]
        outputs = [f"{name} AS o{number}" for number, name in enumerate(wanted)]
        if self.chance(0.3):
            name, sort = self.random.choice(tree.columns)
            value = "coalesce({0}, 7)" if sort == "number" else "{0} IS NULL"
            outputs.append(f"{value.replace('{0}', name)} AS made_out")
        if self.chance(self.scalars):
            outputs.append(f"{self.scalar(tree)} AS scalar_out")
        return ", ".join(outputs)


def _inserts(
    tables: Iterable[Table], epochs: Iterable[tuple[Commit, ...]]
) -> tuple[tuple[Commit, ...], ...]:
    """The epochs with their inserts alone; of those the ones whose key is still free then."""
    taken = {t.name: {_key(t, row) for _, row in t.rows} for t in tables if t.key}
    by_name = {t.name: t for t in tables}

    def stays(name: str, change: Change) -> bool:
        if change.kind != "insert":
            return False
        if name in taken:
            key = _key(by_name[name], change.row)
            if key in taken[name]:
                return False
            taken[name].add(key)
        return True

    return tuple(
        tuple(
            replace(commit, changes=tuple(c for c in commit.changes if stays(commit.table, c)))
            for commit in epoch
        )
        for epoch in epochs
    )


def _key(table: Table, row: Row | None) -> tuple[object, ...]:
    return tuple((row or ())[table.names.index(name)] for name in table.key)


def _sort(kind: str) -> str:
    return "number" if kind in NUMBERS else kind
