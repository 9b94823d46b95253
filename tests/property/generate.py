"""Seed -> case. Small domains, few NULLs and short histories, so that changes meet in the join."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random

from tests.property.cases import (
    Case,
    Change,
    Commit,
    Output,
    Predicate,
    Ref,
    Relation,
    Row,
    Table,
    Value,
    play,
    quote,
)

NUMBERS = ("int", "bigint", "decimal(6,2)")
DAYS = tuple(datetime.date(2024, 2, day) for day in (28, 29))
TABLE_NAMES = ("t0", "Orders", "T_2", "my.table", "étage")
PLAIN_TABLE_NAMES = ("t0", "Orders", "T_2", "t3", "T4")
COLUMN_NAMES = ("x", "Qty", "s", "d", "m", "y", "x.y", "My Col", "a`b", "Straße")
PLAIN_COLUMN_NAMES = ("x", "Qty", "s", "d", "m", "y", "x.y", "Z", "w_1", "V")
ALIASES = ("a", "B", "c", "stream", "r.1", "e_1", "E f", "stream_", "ü", "k")


@dataclass(frozen=True)
class Profile:
    """What a test can take: hard names, `SELECT *`, how many epochs, how large the tables.

    Engines differ in the type of an average.
    """

    epochs: tuple[int, int] = (1, 3)
    hard_names: bool = True
    stars: bool = True
    keyed: bool | None = None
    rows: int = 6
    averages: bool = True


TUNED = Profile()


def generate(seed: int, profile: Profile = TUNED, attempt: int = 0) -> Case:
    """The case of a seed; further attempts are for those who reject a case."""
    return _Generator(seed, profile, attempt).case()


class _Generator:
    def __init__(self, seed: int, profile: Profile, attempt: int) -> None:
        self.seed = seed
        self.random = Random(f"deltajoin:{seed}:{attempt}")
        self.profile = profile
        self.keyed = self.random.random() < 0.45 if profile.keyed is None else profile.keyed
        self.next_rid = 0
        self.key_kind = "int"
        self.tables: list[Table] = []
        self.relations: list[Relation] = []
        self.predicates: list[Predicate] = []

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def case(self) -> Case:
        relations = self.random.choices((2, 3, 4, 5), weights=(36, 36, 18, 10))[0]
        self.make_tables(relations)
        self.make_relations(relations)
        self.make_predicates()
        case = Case(
            seed=self.seed,
            tables=tuple(self.tables),
            relations=tuple(self.relations),
            predicates=tuple(self.predicates),
            outputs=self.make_outputs(),
            epochs=(),
            grouped=self.random.randint(2, relations - 1)
            if relations > 2 and self.chance(0.15)
            else 0,
            flip_case=self.chance(0.15),
        )
        return replace(case, epochs=self.make_epochs(case))

    # tables ---------------------------------------------------------------------------------------

    def make_tables(self, relations: int) -> None:
        count = self.random.randint(1, min(4, relations))
        if count == 1 and relations > 3:
            count = 2
        hard = self.profile.hard_names and self.chance(0.3)
        names = TABLE_NAMES if hard else PLAIN_TABLE_NAMES
        fewest = {2: 3, 3: 4, 4: 5, 5: 5}[relations]
        self.key_kind = self.random.choice(("int", "int", "bigint", "string"))
        for name in self.random.sample(names, count):
            columns = self.make_columns(hard)
            key: tuple[str, ...] = ()
            if self.keyed:
                key = (columns[0][0],)
                if self.chance(0.35):
                    key = (columns[0][0], columns[1][0])
            table = Table(name, columns, key, ())
            rows: dict[int, Row] = {}
            for _ in range(self.random.randint(fewest, self.profile.rows)):
                if row := self.fresh_row(table, rows):
                    rows[self.rid()] = row
            self.tables.append(replace(table, rows=tuple(rows.items())))

    def make_columns(self, hard: bool) -> tuple[tuple[str, str], ...]:
        names = COLUMN_NAMES if hard else PLAIN_COLUMN_NAMES[:7]
        wanted = ["k", *self.random.sample(names, self.random.randint(1, 3))]
        mixed = self.random.choice(("int", "bigint", "string"))
        columns = [("k", self.key_kind if self.chance(0.85) else mixed)]
        for name in wanted[1:]:
            kind = {"s": "string", "d": "date", "m": "decimal(6,2)", "Qty": "bigint"}.get(name)
            columns.append((name, kind or self.random.choice(("int", "bigint", "string"))))
        return tuple(columns)

    def rid(self) -> int:
        self.next_rid += 1
        return self.next_rid

    def value(self, kind: str, wide: bool = False) -> Value:
        if self.chance(0.06):
            return None
        number = self.random.randrange(5 if wide else 3)
        if not wide and self.chance(0.4):
            number = 0
        if kind == "string":
            return ("a", "b", "A", "", "é")[number]
        if kind == "date":
            return self.random.choice(DAYS)
        if kind.startswith("decimal"):
            return Decimal(("1.00", "2.00", "1.50", "0.00", "3.00")[number])
        return number + (1 if self.chance(0.9) else -1)

    def fresh_row(self, table: Table, rows: dict[int, Row]) -> Row | None:
        """A row whose key is free; sometimes a copy where the table has no key."""
        if not table.key and rows and self.chance(0.2):
            return self.random.choice(list(rows.values()))
        at = [table.names.index(name) for name in table.key]
        taken = {tuple(row[i] for i in at) for row in rows.values()}
        for _ in range(8):
            row = tuple(self.value(kind, name in table.key) for name, kind in table.columns)
            if not at or tuple(row[i] for i in at) not in taken:
                return row
        return None

    # the query ------------------------------------------------------------------------------------

    def make_relations(self, count: int) -> None:
        chosen = [*self.tables, *self.random.choices(self.tables, k=count - len(self.tables))]
        self.random.shuffle(chosen)
        hard = self.chance(0.25)
        aliases = self.random.sample(ALIASES, count) if hard else list("abcde"[:count])
        style = self.random.choices(("on", "comma", "mixed", "cross"), weights=(70, 14, 10, 6))[0]
        join = "on"
        for at, table in enumerate(chosen):
            if at and style != "on" and (style != "mixed" or self.chance(0.5)):
                join = "cross" if style == "cross" else "comma"
            relation = Relation(alias=aliases[at], table=table.name, join=join)
            bare = sum(t.name == table.name for t in chosen) == 1 and "." not in table.name
            if self.chance(0.18):
                relation = self.wrapped(relation, table)
            elif bare and self.chance(0.15) and table.name not in aliases:
                relation = replace(relation, alias=table.name)
            self.relations.append(relation)

    def wrapped(self, relation: Relation, table: Table) -> Relation:
        shared = [r for r in self.relations if r.table == table.name and r.wrap == "cte"]
        if shared and self.chance(0.7):
            return replace(shared[0], alias=relation.alias, join=relation.join)
        names = [n if self.chance(0.6) else f"new_{i}" for i, n in enumerate(table.names)]
        text = ""
        if self.chance(0.5):
            name, kind = self.random.choice(table.columns)
            text = self.filter_text(kind).replace("{0}", quote(name))
        return replace(
            relation,
            wrap=self.random.choice(("cte", "derived")),
            filter=text,
            renames=tuple(names),
        )

    def columns_of(self, relation: Relation) -> list[tuple[Ref, str]]:
        table = next(t for t in self.tables if t.name == relation.table)
        return [((relation.alias, name), kind) for name, kind in table.columns]

    def pairs(self, left: Relation, right: Relation) -> list[tuple[Ref, Ref, str]]:
        """Columns of two relations that can be compared, and of which sort."""
        found = []
        for a, kind_a in self.columns_of(left):
            for b, kind_b in self.columns_of(right):
                if kind_a == kind_b or (kind_a in NUMBERS and kind_b in NUMBERS):
                    found.append((a, b, "number" if kind_a in NUMBERS else kind_a))
        return found

    def make_predicates(self) -> None:
        shape = self.random.choice(("chain", "star", "tree"))
        for at in range(1, len(self.relations)):
            to = {"chain": at - 1, "star": 0, "tree": self.random.randrange(at)}[shape]
            self.connect(to, at, required=True)
        if len(self.relations) > 2 and self.chance(0.35):
            self.connect(*sorted(self.random.sample(range(len(self.relations)), 2)), required=False)
        if self.chance(0.25):
            self.residual()
        for relation in self.relations:
            if self.chance(0.1):
                ref, kind = self.random.choice(self.columns_of(relation))
                self.add(self.filter_text(kind), (ref,))
        if self.chance(0.08):
            self.predicates.append(Predicate(self.constant(), (), "where"))

    def connect(self, left: int, right: int, required: bool) -> None:
        a, b = self.relations[left], self.relations[right]
        pairs = self.pairs(a, b)
        if not pairs:
            if required:
                first, second = self.columns_of(a)[-1][0], self.columns_of(b)[-1][0]
                self.add("({0} IS NULL) = ({1} IS NULL)", (first, second))
            return
        if self.shared_name(left, right) and self.chance(0.4):
            return
        same = [pair for pair in pairs if pair[0][1] == pair[1][1]]
        one, two, sort = self.random.choice(same if same and self.chance(0.6) else pairs)
        if (required or self.chance(0.6)) and self.chance(0.85):
            self.add("{0} = {1}" if self.chance(0.9) else "{1} = {0}", (one, two))
            if self.chance(0.25):
                one, two, sort = self.random.choice(pairs)
                self.add("{0} = {1}", (one, two))
            return
        templates = ["{0} <=> {1}"]
        if sort == "number":
            templates += ["{0} <= {1}", "{0} + 1 = {1}", "abs({0}) = {1}", "{0} + {1} >= 3"]
        elif sort == "string":
            templates += ["upper({0}) = upper({1})", "coalesce({0}, 'a') = {1}", "{0} <> {1}"]
        self.add(self.random.choice(templates), (one, two))

    def shared_name(self, left: int, right: int) -> bool:
        """Join by USING where one visible column on the left has the right one's name."""
        new = self.relations[right]
        if new.join != "on" or new.wrap or self.relations[left].wrap:
            return False
        using = {p.refs[0][1] for p in self.predicates if p.place == "using"}
        for one, two, _ in self.pairs(self.relations[left], new):
            name = one[1]
            if name != two[1]:
                continue
            having = [
                r
                for r in self.relations[:right]
                if r.wrap or any(ref[1].lower() == name.lower() for ref, _ in self.columns_of(r))
            ]
            if len(having) == 1 and not using:
                self.predicates.append(Predicate("{0} = {1}", (one, two), "using"))
                return True
        return False

    def residual(self) -> None:
        members = self.random.sample(self.relations, min(len(self.relations), 3))
        numbers = [
            [ref for ref, kind in self.columns_of(relation) if kind in NUMBERS]
            for relation in members
        ]
        if len(numbers) == 3 and all(numbers) and self.chance(0.5):
            refs = tuple(self.random.choice(refs) for refs in numbers)
            self.add(self.random.choice(("{0} + {1} > {2}", "{0} = {1} + {2} - 1")), refs)
        elif all(numbers[:2]):
            one, two = (self.random.choice(refs) for refs in numbers[:2])
            self.add(
                self.random.choice(
                    (
                        "{0} <= {1}",
                        "{0} < {1} OR {0} = 2",
                        "{0} <> {1}",
                        "{0} + {1} >= 3",
                        "({0} = 1 AND {1} >= 2) OR ({0} IN (2, 3) AND {1} = 1)",
                        "({0} = {1} AND {0} > 1) OR ({0} = {1} AND {1} IS NOT NULL)",
                    )
                ),
                (one, two),
            )

    def add(self, template: str, refs: tuple[Ref, ...]) -> None:
        self.predicates.append(Predicate(template, refs, "where" if self.chance(0.25) else "on"))

    def constant(self) -> str:
        return self.random.choice(
            (
                "1 = 1",
                "true",
                "NOT false",
                "2 > 1",
                "'a' <> 'b'",
                self.random.choice(("1 = 0", "1 = 1")),
            )
        )

    def filter_text(self, kind: str) -> str:
        anything = ["{0} IS NOT NULL", "{0} IS NULL OR {0} = {0}"]
        if self.chance(0.1):
            anything = ["{0} IS NULL"]
        if kind == "string":
            return self.random.choice(
                [*anything, "{0} IN ('a', 'b')", "{0} LIKE 'a%' OR {0} = 'b'", "NOT {0} = 'a'"]
            )
        if kind == "date":
            return self.random.choice([*anything, "{0} >= DATE '2024-02-29'"])
        return self.random.choice(
            [*anything, "{0} > 1", "{0} BETWEEN 1 AND 2", "NOT {0} = 2", "{0} <> 1 OR {0} IS NULL"]
        )

    def make_outputs(self) -> tuple[Output, ...]:
        plain = [pair for relation in self.relations for pair in self.columns_of(relation)]
        if self.profile.stars and not any(r.wrap for r in self.relations):
            names = [ref[1].lower() for ref, _ in plain]
            using = any(p.place == "using" for p in self.predicates)
            if not using and len(set(names)) == len(names) and self.chance(0.5):
                return (Output("*", ()),)
        keys = {(r.alias, c) for r in self.relations for c in self.key_of(r)}
        wanted = [ref for ref, _ in plain if ref in keys and self.chance(0.93)]
        wanted += [ref for ref, _ in plain if ref not in wanted and self.chance(0.6)]
        outputs: list[Output] = []
        gap = " " if self.profile.hard_names else "_"
        for number, ref in enumerate(wanted):
            bare = sum(ref[1].lower() == other[1].lower() for other in wanted) == 1
            in_wrap = next(r for r in self.relations if r.alias == ref[0]).wrap
            name = "" if bare and not in_wrap and self.chance(0.4) else f"out{gap}{number}"
            outputs.append(Output("{0}", (ref,), name))
        for number in range(self.random.choice((0, 0, 1, 2))):
            outputs.append(self.computed(plain, f"Computed_{number}"))
        self.random.shuffle(outputs)
        return tuple(outputs) or (Output("{0}", (plain[0][0],), "only"),)

    def key_of(self, relation: Relation) -> tuple[str, ...]:
        return next(t.key for t in self.tables if t.name == relation.table)

    def computed(self, plain: list[tuple[Ref, str]], name: str) -> Output:
        numbers = [ref for ref, kind in plain if kind in NUMBERS]
        strings = [ref for ref, kind in plain if kind == "string"]
        choices = [Output('"it\'s"', (), name), Output("{0} IS NULL", (plain[-1][0],), name)]
        if numbers:
            two = (self.random.choice(numbers), self.random.choice(numbers))
            choices += [
                Output("{0} + 2 * {1}", two, name),
                Output("CASE WHEN {0} > 1 THEN 'many' ELSE 'few' END", two[:1], name),
                Output("coalesce({0}, 0) - 1", two[:1], name),
            ]
        if strings:
            pair = (self.random.choice(strings), self.random.choice(strings))
            choices += [
                Output("{0} || '-' || {1}", pair, name),
                Output("upper({0})", pair[:1], name),
            ]
        return self.random.choice(choices)

    # history --------------------------------------------------------------------------------------

    def make_epochs(self, case: Case) -> tuple[tuple[Commit, ...], ...]:
        state = case.initial()
        epochs: list[tuple[Commit, ...]] = []
        for _ in range(self.random.randint(*self.profile.epochs)):
            commits: list[Commit] = []

            def commit(made: Commit | None, commits: list[Commit] = commits) -> None:
                nonlocal state
                if made and made.changes:
                    state, _ = play(state, made)
                    commits.append(made)

            count = min(len(self.tables), self.random.choices((1, 2, 3), weights=(35, 40, 25))[0])
            for table in self.random.sample(self.tables, count):
                for _ in range(self.random.choices((1, 2, 3), weights=(65, 25, 10))[0]):
                    commit(self.mixed(table, state[table.name]))
                if self.chance(0.2):
                    for made in self.hot(table, state[table.name]):
                        commit(made)
            if self.chance(0.2):
                value = self.random.randrange(1, 4)
                for table in self.tables:
                    commit(self.all_of_key(table, state[table.name], value))
            self.random.shuffle(commits) if self.independent(commits) else None
            epochs.append(tuple(commits))
        return tuple(epochs)

    @staticmethod
    def independent(commits: list[Commit]) -> bool:
        return len({commit.table for commit in commits}) == len(commits)

    def mixed(self, table: Table, rows: dict[int, Row]) -> Commit:
        """Some inserts, updates and deletes of different rows, in one commit."""
        now, changes = dict(rows), []
        untouched = list(rows)
        self.random.shuffle(untouched)
        only = self.random.choice(("", "", "insert", "update", "delete"))
        for _ in range(self.random.choice((1, 2, 2, 3))):
            kind = only or self.random.choice(("insert", "update", "update", "delete"))
            if kind == "insert" and len(now) <= self.profile.rows + 2:
                row = self.fresh_row(table, now)
                if row is not None:
                    changes.append(Change("insert", self.rid(), row))
                    now[changes[-1].rid] = row
            elif kind == "delete" and untouched and len(now) > 1:
                changes.append(Change("delete", untouched.pop()))
                del now[changes[-1].rid]
            elif untouched:
                rid = untouched.pop()
                row = self.altered(table, now, rid)
                if row is not None:
                    changes.append(Change("update", rid, row))
                    now[rid] = row
        return Commit(table.name, tuple(changes))

    def altered(self, table: Table, rows: dict[int, Row], rid: int) -> Row | None:
        """The row with one or two other values, its key free."""
        others = {other: row for other, row in rows.items() if other != rid}
        at = [table.names.index(name) for name in table.key]
        for _ in range(4):
            row = list(rows[rid])
            for i in self.random.sample(range(len(row)), self.random.choice((1, 1, 2))):
                name, kind = table.columns[i]
                row[i] = self.value(kind, name in table.key)
            taken = {tuple(other[i] for i in at) for other in others.values()}
            if not at or tuple(row[i] for i in at) not in taken:
                return tuple(row)
        return None

    def hot(self, table: Table, rows: dict[int, Row]) -> list[Commit]:
        """One row that changes again and again, and now and then goes or returns to what it was."""
        if not rows:
            return []
        rid = self.random.choice(list(rows))
        first, now, commits = rows[rid], dict(rows), []
        for _ in range(self.random.randint(2, 3)):
            row = self.altered(table, now, rid)
            if row is not None:
                commits.append(Commit(table.name, (Change("update", rid, row),)))
                now[rid] = row
        if self.chance(0.4):
            end = Change("update", rid, first) if self.chance(0.5) else Change("delete", rid)
            commits.append(Commit(table.name, (end,)))
        return commits

    def all_of_key(self, table: Table, rows: dict[int, Row], value: int) -> Commit:
        """Delete every row with a first column of this value: partners of a join go together."""
        text = {1: "a", 2: "b", 3: "A"}[value]
        gone = [rid for rid, row in rows.items() if row[0] in (value, text)]
        return Commit(table.name, tuple(Change("delete", rid) for rid in gone))
