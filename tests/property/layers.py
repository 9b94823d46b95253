"""Seed -> a case whose query has windows or generators on top of a random tree of joins, as text.

Windows: one to three calls over partitions in common, ranks, offsets, aggregates over frames, in
part named, in part filtered above (`rn = 1`, also by QUALIFY). Generators: one or two LATERAL
VIEWs or one in SELECT, over arrays that may be NULL or empty, with filters, groups, windows above.
"""

from __future__ import annotations

from dataclasses import replace

from tests.property.cases import Case
from tests.property.generate import TUNED, Profile
from tests.property.trees import Tree, _Trees

RANKS = ("rank()", "dense_rank()", "percent_rank()", "cume_dist()")


def generate_layers(seed: int, profile: Profile = TUNED, attempt: int = 0) -> Case:
    """The case of a seed; further attempts are for those who reject a case."""
    return _Layers(seed, profile, attempt).case()


class _Layers(_Trees):
    def __init__(self, seed: int, profile: Profile, attempt: int) -> None:
        if profile.keyed is None and seed % 4:
            profile = replace(profile, keyed=True)
        super().__init__(seed, profile, attempt)
        self.views = 0

    def query(self, count: int) -> str:
        tree = self.tree(count)
        where = [self.filter(tree) for _ in range(2) if self.chance(0.2)]
        if self.chance(0.15):
            return self.over_groups(tree, where)
        if self.chance(0.1):
            return self.in_sets(tree, where)
        if self.chance(0.5):
            return self.windowed(tree, where)
        if self.chance(0.25):
            return self.selected(tree, where)
        for _ in range(1 if self.chance(0.75) else 2):
            tree = self.exploded(tree)
        if self.chance(0.3):
            where.append(self.filter(replace(tree, columns=tree.columns[-1:])))
        if self.chance(0.2):
            return self.windowed(tree, where)
        if self.chance(0.35):
            head, tail = self.grouped(tree)
            return self.select(head, tree, where) + tail
        text = self.select(self.shown(tree), tree, where)
        return self.wrapped(text, "x0", tree.columns[-1][1]) if self.chance(0.3) else text

    def select(self, head: str, tree: Tree, where: list[str]) -> str:
        text = f"SELECT {head} FROM {tree.text}"
        return text + (f" WHERE {' AND '.join(f'({w})' for w in where)}" if where else "")

    def shown(self, tree: Tree) -> str:
        return f"{self.outputs_of(tree)}, {tree.columns[-1][0]} AS x0"

    def wrapped(self, text: str, name: str, sort: str) -> str:
        """A filter in a query or CTE of its own."""
        kind = "int" if sort == "number" else sort
        condition = self.filter_text(kind).replace("{0}", name)
        if self.chance(0.5):
            return f"WITH q AS ({text}) SELECT * FROM q WHERE {condition}"
        return f"SELECT {name}, q.* EXCEPT ({name}) FROM ({text}) AS q WHERE {condition}"

    def below_groups(self) -> Tree:
        tree = super().below_groups()
        return self.exploded(tree) if self.chance(0.4) else tree

    # generators ----------------------------------------------------------------------------------

    def array(self, tree: Tree) -> tuple[str, str]:
        """An array over columns, which may be NULL or empty or hold NULL, and its sort."""
        one, sort = self.random.choice(tree.columns)
        same = [name for name, s in tree.columns if s == sort]
        two = self.random.choice(same)
        ways = [f"array({one}, {two})", f"array({one})"]
        ways += [f"CASE WHEN {one} = {two} THEN array({two}, {one}, {one}) END"]
        ways += [f"CASE WHEN {one} IS NOT NULL THEN array({two}) END"]
        ways += [f"filter(array({one}, {two}), e -> e IS NOT NULL)"]
        if sort == "number":
            ways.append(f"filter(array({one}, {two}, 2), e -> e > 1)")
        if sort == "string":
            ways.append(f"split({one}, 'a')")
        return self.random.choice(ways), sort

    def exploded(self, tree: Tree) -> Tree:
        self.views += 1
        view, outer = f"v{self.views}", "OUTER " if self.chance(0.4) else ""
        array, sort = self.array(tree)
        name = f"{view}.e{self.views}"
        columns = [(name, sort)]
        kind = self.random.choice(("explode", "explode", "posexplode", "stack"))
        call, names = f"{kind}({array})", f"e{self.views}"
        if kind == "posexplode":
            names = f"p{self.views}, e{self.views}"
            columns = [(f"{view}.p{self.views}", "number"), (name, sort)]
        if kind == "stack":
            same = [n for n, s in tree.columns if s == sort]
            values = [self.random.choice(same), self.random.choice(same)]
            if sort == "number":  # Spark stacks one type only, and sums have another than columns
                values = [f"CAST({value} AS DECIMAL(30, 4))" for value in values]
            call = f"stack(2, {', '.join(values)})"
        text = f"{tree.text} LATERAL VIEW {outer}{call} {view} AS {names}"
        return Tree(text, tree.columns + columns, tree.keys, False)

    def selected(self, tree: Tree, where: list[str]) -> str:
        array, sort = self.array(tree)
        text = self.select(f"{self.outputs_of(tree)}, explode({array}) AS x0", tree, where)
        return self.wrapped(text, "x0", sort) if self.chance(0.5) else text

    # windows -------------------------------------------------------------------------------------

    def windowed(self, tree: Tree, where: list[str]) -> str:
        part, sort = self.random.choice(tree.columns)
        if sort == "number" and self.chance(0.2):
            part = f"coalesce({part}, 0)"
        shown = [f"{part} AS p"] if self.chance(0.75) else []
        rest = [c for c, _ in tree.columns if c in tree.keys and self.chance(0.8)]
        rest += [c for c, _ in tree.columns if c not in rest and self.chance(0.25)]
        shown += [f"{name} AS o{number}" for number, name in enumerate(rest)]
        named = f" WINDOW w AS ({self.window(tree, part)})" if self.chance(0.25) else ""
        calls = [self.call(tree, part, bool(named)) for _ in range(self.random.randint(1, 3))]
        shown += [f"{call} AS n{number}" for number, call in enumerate(calls)]
        first = f"row_number() OVER ({self.window(tree, part)})"
        way = self.random.random()
        if way < 0.12:
            text = self.select(", ".join(shown), tree, where) + named
            return f"{text} QUALIFY {first} = 1"
        if way < 0.4:
            text = self.select(", ".join([*shown, f"{first} AS rn"]), tree, where) + named
            also = " AND p IS NOT NULL" if shown[0].endswith("AS p") and self.chance(0.2) else ""
            wanted = self.random.choice(("rn = 1", "1 = rn", "rn <= 2", "rn > 1"))
            given = self.random.choice(("q.*", "* EXCEPT (rn)", "n0, rn"))
            return f"SELECT {given} FROM ({text}) AS q WHERE {wanted}{also}"
        text = self.select(", ".join(shown), tree, where) + named
        if way < 0.55:
            return f"WITH q AS ({text}) SELECT n0, n0 = n0 AS m FROM q WHERE n0 IS NOT NULL"
        return text

    def over_groups(self, tree: Tree, where: list[str]) -> str:
        """Windows over the groups of a select, in part filtered by QUALIFY or above."""
        (part, _), (other, _) = self.random.choice(tree.columns), self.random.choice(tree.columns)
        keys = list(dict.fromkeys([part, other]))
        numbers = [name for name, s in tree.columns if s == "number"]
        figure = f"sum({self.random.choice(numbers)})" if numbers else f"count({other})"
        over = f"OVER (PARTITION BY {part} ORDER BY {', '.join(reversed(keys))})"
        ways = [f"rank() OVER (PARTITION BY {part} ORDER BY count(*){self.direction()})"]
        ways += [f"sum({figure}) OVER (PARTITION BY {part})", f"row_number() {over}"]
        ways += [f"count(*) - lag(count(*)) {over}", f"max(min({other})) {over}"]
        shown = [f"{name} AS o{i}" for i, name in enumerate(keys) if self.chance(0.7)]
        calls = self.random.sample(ways, self.random.randint(1, 2))
        shown += [f"{call} AS n{i}" for i, call in enumerate(calls)]
        shown += ["count(*) AS m"] if self.chance(0.4) else []
        text = self.select(", ".join(shown), tree, where) + f" GROUP BY {', '.join(keys)}"
        text += " HAVING count(*) > 1" if self.chance(0.2) else ""
        if self.chance(0.25):
            return f"{text} QUALIFY rank() {over} <= 2"
        return f"SELECT * FROM ({text}) AS q WHERE n0 IS NOT NULL" if self.chance(0.3) else text

    def in_sets(self, tree: Tree, where: list[str]) -> str:
        """Groups by sets of keys; not the empty set of no rows, which DuckDB gives a row."""
        names = [name for name, _ in tree.columns]
        keys = list(dict.fromkeys(self.random.choice(names) for _ in range(3)))
        sets = [self.random.sample(keys, self.random.randint(0, len(keys))) for _ in range(3)]
        ways = [f"ROLLUP ({', '.join(keys)})", f"CUBE ({', '.join(keys[:2])})"]
        ways += [f"{keys[0]}, ROLLUP ({', '.join(keys[1:] or keys)})"]
        listed = ", ".join("(" + ", ".join(one) + ")" for one in [keys, *sets])
        ways += [f"GROUPING SETS ({listed})"]
        way = self.random.choice(ways)
        used = keys[:2] if "CUBE" in way else keys
        shown = [f"{name} AS o{i}" for i, name in enumerate(used) if self.chance(0.8)]
        shown += [f"count({self.random.choice(names)}) AS n", f"grouping({used[0]}) AS g"]
        numbers = [name for name, sort in tree.columns if sort == "number"]
        shown += [f"sum({self.random.choice(numbers)}) AS s"] if numbers else []
        shown += [f"max({self.random.choice(names)}) AS m"] if self.chance(0.4) else []
        text = self.select(", ".join(shown), tree, where)
        return f"{text} GROUP BY {way} HAVING count(*) > 0"

    def window(self, tree: Tree, part: str, order: str = "") -> str:
        """A partition and an order, which mostly identifies a row."""
        parts = [part]
        if self.chance(0.25):
            parts.insert(self.random.randint(0, 1), self.random.choice(tree.columns)[0])
        keys = list(tree.keys) if self.chance(0.92) else []
        some = self.random.sample(tree.columns, min(2, len(tree.columns)))
        names = [order] if order else [n for n, _ in some if self.chance(0.5)]
        by = [f"{name}{self.direction()}" for name in dict.fromkeys([*names, *keys])]
        by = by or [tree.columns[0][0]]
        return f"PARTITION BY {', '.join(parts)} ORDER BY {', '.join(by)}"

    def direction(self) -> str:
        return self.random.choice(("", "", " DESC", " DESC NULLS FIRST", " NULLS LAST"))

    def call(self, tree: Tree, part: str, named: bool) -> str:
        anything = self.random.choice(tree.columns)[0]
        numbers = [name for name, sort in tree.columns if sort == "number"]
        window = "w" if named and self.chance(0.6) else f"({self.window(tree, part)})"
        whole = f"(PARTITION BY {part})"
        ways = [f"{self.random.choice(RANKS)} OVER {window}"] * 3
        ways += [f"{f}({anything}) OVER {window}" for f in ("min", "max", "count")]
        ways += [f"count(*) OVER {whole}", f"count({anything}) OVER {whole} + 1"]
        ways += [f"{f} OVER {window}" for f in ("row_number()", f"lag({anything})", "ntile(2)")]
        ways += [f"first_value({anything}) OVER {window}", f"lead({anything}, 2) OVER {window}"]
        if numbers:
            one = self.random.choice(numbers)
            frame = self.random.choice(
                (
                    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
                    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                )
            )
            order = f"{self.window(tree, part)} {frame}"
            ways += [f"sum({one}) OVER {window}", f"sum({one}) OVER {whole}"]
            ways += [f"sum({one}) OVER ({order})"] * 2
            ways += [f"count({one}) FILTER (WHERE {one} > 0) OVER ({order})"]
            ways += [
                f"sum({one}) OVER (PARTITION BY {part} ORDER BY {one} "
                "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)"
            ]
        return self.random.choice(ways)
