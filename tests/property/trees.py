"""Seed -> a case whose query is a random tree of inner, outer, semi and anti joins, as text.

Tables and histories are those of `generate`; the query nests up to five relations in any order,
with residuals and one-sided conjuncts in ON, filters that do and don't reject NULL in WHERE,
EXISTS and IN with their negations, and derived tables with computed columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.property.cases import Case, Table, quote
from tests.property.generate import NUMBERS, TUNED, Profile, _Generator

KINDS = (("inner", 26), ("left", 36), ("right", 7), ("full", 8), ("semi", 11), ("anti", 12))
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


class _Trees(_Generator):
    def __init__(self, seed: int, profile: Profile, attempt: int) -> None:
        super().__init__(seed, replace(profile, hard_names=False), attempt)
        self.random = Random(f"deltajoin:trees:{seed}:{attempt}")
        self.aliases = iter("abcefghijklmnopqrstuvwxyz")
        self.groups = 0.35
        self.nested = 2

    def case(self) -> Case:
        count = self.random.choices((2, 3, 4, 5), weights=(30, 36, 24, 10))[0]
        self.make_tables(count)
        case = Case(self.seed, tuple(self.tables), (), (), (), (), query=self.query(count))
        return replace(case, epochs=self.make_epochs(case))

    def query(self, count: int) -> str:
        tree = self.tree(count)
        where = [self.filter(tree) for _ in range(3) if self.chance(0.2)]
        if self.chance(0.15):
            where.append(self.subquery(tree))
        head, tail = self.grouped(tree) if self.chance(self.groups) else ("", "")
        text = f"SELECT {head or self.outputs_of(tree)} FROM {tree.text}"
        text += f" WHERE {' AND '.join(f'({w})' for w in where)}" if where else ""
        return text + tail

    def grouped(self, tree: Tree) -> tuple[str, str]:
        """The SELECT list and the end of a query with aggregates, or with DISTINCT."""
        if self.chance(0.2):
            return "DISTINCT " + self.outputs_of(tree), ""
        keys = []
        for name, sort in self.random.sample(tree.columns, min(2, len(tree.columns))):
            if not keys or self.chance(0.35):
                value = f"coalesce({name}, 0)" if sort == "number" and self.chance(0.2) else name
                keys.append(value)
        shown = [f"{key} AS g{number}" for number, key in enumerate(keys)]
        made = [self.aggregate(tree) for _ in range(self.random.randint(1, 3))]
        shown += [f"{value} AS a{number}" for number, value in enumerate(made)]
        names = keys if self.chance(0.7) else [str(n + 1) for n in range(len(keys))]
        tail = " GROUP BY " + ", ".join(names)
        if self.chance(0.2):
            tail += f" HAVING {self.random.choice(('count(*) > 1', 'count(*) < 3'))}"
        return ", ".join(shown), tail

    def aggregate(self, tree: Tree) -> str:
        numbers = [name for name, sort in tree.columns if sort == "number"]
        anything = self.random.choice(tree.columns)[0]
        calls = [f"count({anything})", "count(*)", f"count(DISTINCT {anything})"]
        calls += [f"min({anything})", f"max({anything})"]
        if numbers:
            one, two = self.random.choice(numbers), self.random.choice(numbers)
            calls += [f"sum({one})", f"sum({one} * 2 + {two})"]
            calls += [f"avg({one})"] if self.profile.averages else []
            calls += [f"sum({one}) FILTER (WHERE {two} > 1)", f"coalesce(sum({one}), 0) + 1"]
        return self.random.choice(calls)

    def tree(self, count: int) -> Tree:
        if count == 1:
            return self.leaf()
        left = self.random.choices((count - 1, self.random.randint(1, count - 1)), (60, 40))[0]
        return self.join(self.tree(left), self.tree(count - left))

    def leaf(self) -> Tree:
        table = self.random.choice(self.tables)
        alias = next(self.aliases)
        columns = [(f"{alias}.{quote(n)}", _sort(k)) for n, k in table.columns]
        keys = tuple(f"{alias}.{quote(n)}" for n in table.key)
        text = f"{quote(table.name)} AS {alias}"
        if self.chance(0.12):
            text, extra = self.derived(table, alias)
            columns += extra
        if self.nested and self.chance(0.12):
            return self.groups_of(alias)
        return Tree(text, columns, keys, True)

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
        below = self.tree(self.random.choice((1, 1, 2)))
        keys = self.random.sample(below.columns, min(len(below.columns), 1 + self.chance(0.3)))
        shown = [f"{name} AS k{number}" for number, (name, _) in enumerate(keys)]
        columns = [(f"{alias}.k{number}", sort) for number, (_, sort) in enumerate(keys)]
        where = f" WHERE {self.filter(below)}" if self.chance(0.2) else ""
        if self.chance(0.2):
            text = f"SELECT DISTINCT {', '.join(shown)} FROM {below.text}{where}"
            return Tree(f"({text}) AS {alias}", columns, (), True)
        for number in range(self.random.randint(1, 2)):
            value = self.aggregate(below)
            shown.append(f"{value} AS v{number}")
            numeric = not value.startswith(("min", "max", "avg"))
            columns += [(f"{alias}.v{number}", "number")] if numeric else []
        text = f"SELECT {', '.join(shown)} FROM {below.text}{where}"
        text += f" GROUP BY {', '.join(name for name, _ in keys)}"
        if self.chance(0.2):
            text += f" HAVING {self.random.choice(('count(*) > 1', 'count(*) < 3'))}"
        return Tree(f"({text}) AS {alias}", columns, (), True)

    def join(self, left: Tree, right: Tree) -> Tree:
        names, weights = zip(*KINDS, strict=True)
        kind = self.random.choices(names, weights)[0]
        on = self.condition(left, right)
        inside = right.text if right.single else f"({right.text})"
        text = f"{left.text} {_TEXT[kind]} {inside} ON {on}"
        if self.chance(0.1) and not left.single:
            text = f"({left.text}) {_TEXT[kind]} {inside} ON {on}"
        if kind in ("semi", "anti"):
            return Tree(text, left.columns, left.keys, False)
        return Tree(text, left.columns + right.columns, left.keys + right.keys, False)

    def pairs_of(self, left: Tree, right: Tree) -> list[tuple[str, str, str]]:
        return [(a, b, s) for a, s in left.columns for b, t in right.columns if s == t]

    def condition(self, left: Tree, right: Tree) -> str:
        pairs = self.pairs_of(left, right)
        if not pairs:
            return f"({left.columns[0][0]} IS NULL) = ({right.columns[0][0]} IS NULL)"
        alike = [p for p in pairs if p[0].split(".")[1] == p[1].split(".")[1]]
        one, two, sort = self.random.choice(alike if alike and self.chance(0.6) else pairs)
        parts = [f"{one} = {two}" if self.chance(0.9) else f"{two} <=> {one}"]
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
        if self.chance(0.3) and not negated:
            return f"{one} IN (SELECT {two} FROM {inner.text})"
        also = f" AND ({self.filter(inner)})" if self.chance(0.3) else ""
        return f"{negated}EXISTS (SELECT 1 FROM {inner.text} WHERE {one} = {two}{also})"

    def outputs_of(self, tree: Tree) -> str:
        wanted = [c for c, _ in tree.columns if c in tree.keys and self.chance(0.93)]
        wanted += [c for c, _ in tree.columns if c not in wanted and self.chance(0.5)]
        wanted = wanted or [tree.columns[0][0]]
        outputs = [f"{name} AS o{number}" for number, name in enumerate(wanted)]
        if self.chance(0.3):
            name, sort = self.random.choice(tree.columns)
            value = "coalesce({0}, 7)" if sort == "number" else "{0} IS NULL"
            outputs.append(f"{value.replace('{0}', name)} AS made_out")
        return ", ".join(outputs)


def _sort(kind: str) -> str:
    return "number" if kind in NUMBERS else kind
