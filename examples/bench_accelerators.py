"""Time joins that stand on no equality: Spark's own plan, our full query, DuckDB, our lookups.

For each kind of join, over two tables with intervals and values of uneven size, in one run:

    ours     our full query, as a rebuild runs it
    duckdb   the same join in DuckDB on the same Parquet files (ASOF JOIN for `asof`)
    lookup   the lookups of an incremental run after 1,000 rows came to the left table, and the
             whole run with changes read, target written and verified
    spark    the same SQL as Spark plans it

CPU seconds are those of the process: they say more than the clock on a busy machine.
All but Spark's own plan run once before they are timed. It comes last, as it may take hours: after
`--own-limit` seconds it is stopped, and so is DuckDB, where they stand with `>`. Only a count and
sums over the pairs leave the engines. These must be equal on all sides that ended; the kept target
must hold the same, and what Spark's own plan finds for the rows that came and for 1,000 others.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltajoin import Model

REPOSITORY = Path(__file__).resolve().parents[1]
#: Rows that come to the left table; of the others as many are looked at one by one.
CHANGED = 1_000
#: The length of the line on which intervals and points lie; keys of the ASOF joins.
LINE, KEYS = 10**9, 50
PAIRS = "count(*) AS n, sum(i) AS i, sum(j) AS j, sum((i * j) % 1000003) AS mixed"

Found = tuple[int, ...]


@dataclass(frozen=True)
class Kind:
    """A join of `l` with `r`: expressions of both tables' columns beside `id`, and the condition.

    `rows` is what stands for the right table, `after` what follows the join; `key` the right
    table's; `duckdb` the FROM where DuckDB writes it otherwise. `values` give two numbers.
    """

    name: str
    left: Mapping[str, str]
    right: Mapping[str, str]
    on: str
    rows: str = "right_rows"
    duckdb: str = ""
    after: str = ""
    key: tuple[str, ...] = ("id",)
    values: str = "l.id AS i, r.id AS j"

    @property
    def sql(self) -> str:
        """The join in Spark SQL, as a user writes it."""
        source = f"left_rows l JOIN {self.rows} r ON {self.on} {self.after}".rstrip()
        return f"SELECT {self.values} FROM {source}"

    @property
    def duckdb_sql(self) -> str:
        """The join in DuckDB's SQL, which has no `1.5D`."""
        source = self.duckdb or f"left_rows l JOIN {self.rows} r ON {self.on} {self.after}"
        return re.sub(r"([0-9])D", r"\1", f"SELECT {self.values} FROM {source}")


@dataclass
class Case:
    """What was measured of one kind: seconds by the wall clock, where they are a limit (`stopped`),
    and of the processors; pairs, what is wrong, and by which accelerators our query joins."""

    kind: str
    sql: str
    accelerated: list[str] = field(default_factory=list)
    rows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def ratio(self, one: str, other: str) -> float | None:
        """How many times longer one side takes than another; None where that was stopped."""
        if other in self.stopped or one not in self.seconds or other not in self.seconds:
            return None
        return self.seconds[one] / max(self.seconds[other], 0.001)

    def to_dict(self) -> dict[str, Any]:
        """The case with its ratios, as plain values."""
        ratios = {f"{one}/{other}": self.ratio(one, other) for one, other in RATIOS}
        return {**asdict(self), "ratios": ratios}


SIDES = ("spark", "ours", "duckdb", "lookup", "run")
RATIOS = (("spark", "ours"), ("ours", "duckdb"), ("ours", "lookup"), ("ours", "run"))


# tables -------------------------------------------------------------------------------------------


def uniform(salt: int) -> str:
    """A number of [0, 1) for each row, the same in every run."""
    return f"((hash(id, {salt}) + 2147483648D) / 4294967296D)"


def length(mean: float, salt: int) -> str:
    """Lengths of which few are a thousand times the shortest."""
    shortest = mean / 4.3
    power = f"least(1000D, pow(greatest({uniform(salt)}, 1e-9D), -0.8D))"
    return f"(1 + CAST({shortest!r}D * {power} AS BIGINT))"


def somewhere(salt: int) -> str:
    """A point of the line."""
    return f"CAST({LINE} * {uniform(salt)} AS BIGINT)"


def on_earth(salt: int) -> dict[str, str]:
    """A place, as likely here as there."""
    return {
        "lat": f"degrees(asin(2 * {uniform(salt)} - 1))",
        "lon": f"360 * {uniform(salt + 1)} - 180",
    }


def tokens(most: int, salt: int) -> str:
    """One to four numbers, the small ones more frequent."""
    each = [f"CAST({most} * pow({uniform(salt + n)}, 2) AS INT)" for n in range(4)]
    return f"slice(array({', '.join(each)}), 1, 1 + pmod(hash(id, {salt}), 4))"


def digits(salt: int) -> str:
    """Twelve digits."""
    return f"lpad(CAST(pmod(xxhash64(id, {salt}), 1000000000000) AS STRING), 12, '0')"


def kinds_of(right: int) -> Iterator[Kind]:
    """The kinds of join, such that a left row finds a few of so many right rows."""
    point, start, end = somewhere(1), somewhere(2), length(2 * LINE / right, 3)
    yield Kind(
        "interval",
        {"at": point},
        {"lo": start, "hi": f"{start} + {end}"},
        "l.at >= r.lo AND l.at < r.hi",
    )
    mine, other = (length(1.5 * LINE / right, salt) for salt in (4, 5))
    yield Kind(
        "overlap",
        {"lo": point, "hi": f"{point} + {mine}"},
        {"lo": start, "hi": f"{start} + {other}"},
        "l.lo < r.hi AND r.lo < l.hi",
    )
    most = 1500 / right
    yield Kind(
        "band",
        {"x": f"1000 * {uniform(6)}"},
        {"x": f"1000 * {uniform(7)}"},
        f"abs(l.x - r.x) <= {most:.9f}D",
        # DuckDB sees no range in `abs`; the one it gets is a little wider.
        duckdb="left_rows l JOIN right_rows r ON l.x >= r.x - {wide} AND l.x <= r.x + {wide} "
        "AND abs(l.x - r.x) <= {most:.9f}".format(wide=1.001 * most, most=most),
    )
    key = f"pmod(hash(id, 8), {KEYS})"
    # No two of a key have one time: `lead` and the pairs are certain then.
    times = f"{somewhere(10)} DIV {right} * {right} * 1000 + id"
    moments = ({"k": key, "ts": f"{somewhere(9)} * 1000"}, {"k": key, "ts": times})
    asof = "left_rows l ASOF JOIN right_rows r ON l.k = r.k AND l.ts >= r.ts"
    yield Kind(
        "asof",
        *moments,
        "l.k = r.k AND l.ts >= r.ts AND (l.ts < r.next_ts OR r.next_ts IS NULL)",
        "(SELECT id, k, ts, lead(ts) OVER (PARTITION BY k ORDER BY ts, id) AS next_ts "
        "FROM right_rows)",
        asof,
    )
    yield Kind(
        "last",  # the same, as people write it
        *moments,
        "l.k = r.k AND l.ts >= r.ts",
        duckdb=asof,
        after="QUALIFY row_number() OVER (PARTITION BY l.id ORDER BY r.ts DESC) = 1",
        key=("k", "ts"),
    )
    yield Kind(
        "running",  # what came before: each right row matches half of the left ones
        {"at": point},
        {"at": start, "v": "id % 1000"},
        "l.at >= r.at",
        after="GROUP BY l.id",
        values="l.id AS i, sum(r.v) + count(*) AS j",
    )
    # A circle about a place holds about three others.
    most = 2 * 6371 * (3 / right) ** 0.5
    yield Kind(
        "distance",
        on_earth(11),
        on_earth(13),
        "2 * 6371 * asin(sqrt(pow(sin(radians(r.lat - l.lat) / 2), 2) + cos(radians(l.lat)) * "
        f"cos(radians(r.lat)) * pow(sin(radians(r.lon - l.lon) / 2), 2))) <= {most:.1f}D",
    )
    yield Kind(
        "array",
        {"tags": tokens(10 * right, 20)},
        {"tags": tokens(10 * right, 30)},
        "arrays_overlap(l.tags, r.tags)",
        duckdb="left_rows l JOIN right_rows r ON list_has_any(l.tags, r.tags)",
    )
    # Some beginnings are a digit shorter than most, or two, and begin ten times as many texts.
    long = len(str(right)) - 1
    u = uniform(40)
    shorter = f"CASE WHEN {u} < 0.005D THEN 2 WHEN {u} < 0.05D THEN 1 ELSE 0 END"
    yield Kind(
        "prefix",
        {"name": digits(41)},
        {"start": f"substring({digits(42)}, 1, {long} - {shorter})"},
        "startswith(l.name, r.start)",
        duckdb="left_rows l JOIN right_rows r ON starts_with(l.name, r.start)",
    )


class Bench:
    """One kind's tables in a folder, and the sides over them."""

    def __init__(self, spark: SparkSession, home: Path, kind: Kind, left: int, right: int) -> None:
        self.spark, self.kind, self.left, self.home = spark, kind, left, home
        self.case = Case(kind.name, " ".join(kind.sql.split()))
        self.add("left_rows", kind.left, 0, left)
        self.add("right_rows", kind.right, 0, right)
        self.files: dict[str, list[str]] = {}
        for name in ("left_rows", "right_rows"):
            rows = spark.read.format("delta").load(str(home / name))
            rows.createOrReplaceTempView(name)
            self.files[name] = [file.removeprefix("file://") for file in rows.inputFiles()]

    def add(self, name: str, columns: Mapping[str, str], first: int, end: int) -> None:
        """Append the rows of some ids to a table."""
        rows = self.spark.range(first, end, numPartitions=4 if end - first > CHANGED else 1)
        rows = rows.selectExpr("id", *(f"{sql} AS {column}" for column, sql in columns.items()))
        rows.write.format("delta").mode("append").save(str(self.home / name))

    def model(self, mode: str) -> Model:
        """The join as a table with a row for each pair."""
        import deltajoin

        return deltajoin.Model(
            name=self.kind.name,
            sql=self.kind.sql,
            sources={name: str(self.home / name) for name in self.files},
            target=str(self.home / "target"),
            keys={"left_rows": ["id"], "right_rows": list(self.kind.key)},
            mode=mode,
        )

    # sides

    def ours(self) -> Found:
        """Our full query, timed in its second run."""
        import deltajoin
        from deltajoin.emit.stream import Statement
        from deltajoin.emit.views import Views
        from deltajoin.emit.whole_query import full_sql
        from deltajoin.runtime.read import open_statements

        planned = deltajoin.plan(self.model("full"))
        joins = planned.full_query.to_dict()["joins"] if planned.full_query else []
        self.case.accelerated = [j["accelerated"]["kind"] for j in joins if j.get("accelerated")]
        if not self.case.accelerated:
            self.case.wrong.append("no accelerator")
        views = Views(planned)
        for source in planned.sources:
            rows = self.spark.read.format("delta").load(str(self.home / source.source))
            rows.createOrReplaceTempView(views.scan(source.source, source.version).view)
        apart: list[Statement] = []
        text = full_sql(planned, views, apart=apart)

        def pairs() -> Found:
            open_statements(self.spark, [asdict(statement) for statement in apart])
            return self.pairs(text)

        pairs()
        return self.timed("ours", pairs)

    def duckdb(self, limit: float) -> Found | None:
        """DuckDB on the files, timed in its second run; None where the first reaches a limit."""
        with duckdb.connect(config={"threads": os.cpu_count() or 1}) as connection:
            for name, files in self.files.items():
                connection.execute(f"CREATE VIEW {name} AS FROM read_parquet({files!r})")

            def pairs() -> Found:
                found = connection.execute(f"SELECT {PAIRS} FROM ({self.kind.duckdb_sql})")
                return tuple(int(value or 0) for value in found.fetchone() or ())

            timer = threading.Timer(limit, connection.interrupt)
            timer.start()
            try:
                self.timed("duckdb", pairs)
            except duckdb.InterruptException:
                self.stop("duckdb", limit)
                return None
            finally:
                timer.cancel()
            return self.timed("duckdb", pairs)

    def lookups(self, full: Found) -> None:
        """Build the target, let rows come twice, time the run after the second time; compare the
        target with the full query and with Spark's own plan for some rows."""
        import deltajoin

        deltajoin.run(self.model("auto"), self.spark)
        for number in range(2):
            first = self.left + number * CHANGED
            self.add("left_rows", self.kind.left, first, first + CHANGED)
            started = time.monotonic()
            record = deltajoin.run(self.model("incremental"), self.spark)
            self.case.seconds["run"] = round(time.monotonic() - started, 3)
        self.case.phases = dict(record.phases or {})
        self.case.seconds["lookup"] = self.case.phases.get("lookups", 0.0)
        if record.strategy != "incremental":
            self.case.wrong.append(f"{record.strategy} because {record.reason}")
        self.spark.read.format("delta").load(str(self.home / "target")).createOrReplaceTempView(
            "kept"
        )
        self.spark.read.format("delta").load(str(self.home / "left_rows")).where(
            f"id < {CHANGED} OR id >= {self.left}"
        ).createOrReplaceTempView("left_some")
        old, some = f"i < {self.left}", f"i < {CHANGED} OR i >= {self.left}"
        own = self.kind.sql.replace("left_rows", "left_some")
        if self.pairs(f"SELECT i, j FROM kept WHERE {old}") != full:
            self.case.wrong.append("the target is not the full query")
        if self.pairs(f"SELECT i, j FROM kept WHERE {some}") != self.pairs(own):
            self.case.wrong.append("some rows of the target are not what Spark's own plan finds")

    def own(self, limit: float) -> Found | None:
        """Spark's own plan; None where it reaches a limit."""
        # The rows that came since belong to no other side.
        where = f"(SELECT * FROM left_rows WHERE id < {self.left})"
        text = self.kind.sql.replace("left_rows l", f"{where} l")
        group, context = f"own plan of {self.kind.name}", self.spark.sparkContext
        found: list[Found] = []
        failures: list[Exception] = []

        def work() -> None:
            context.setJobGroup(group, group, interruptOnCancel=True)
            try:
                found.append(self.timed("spark", lambda: self.pairs(text)))
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(limit)
        if thread.is_alive():
            context.cancelJobGroup(group)
            thread.join()
        if found:
            return found[0]
        if not any("cancel" in str(error).lower() for error in failures):
            raise failures[0]
        self.stop("spark", limit)
        return None

    # measuring

    def pairs(self, text: str) -> Found:
        """The count of a join's pairs and sums over them."""
        row = self.spark.sql(f"SELECT {PAIRS} FROM (\n{text}\n)").collect()[0]
        return tuple(int(value or 0) for value in row)

    def timed(self, side: str, work: Callable[[], Found]) -> Found:
        """Do it, and keep its seconds."""
        started, used = time.monotonic(), self.used(side)
        found = work()
        self.case.seconds[side] = round(time.monotonic() - started, 3)
        self.case.cpu[side] = round(self.used(side) - used, 2)
        return found

    def used(self, side: str) -> float:
        """CPU seconds of the process in which a side runs (Spark's: on Linux alone, else 0)."""
        if side == "duckdb":
            return time.process_time()
        gateway: Any = self.spark.sparkContext._gateway
        stat = Path("/proc", str(gateway.proc.pid), "stat")
        if not stat.exists():
            return 0.0
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, side: str, limit: float) -> None:
        """Note that a side took longer than its limit."""
        self.case.seconds[side] = limit
        self.case.stopped.append(side)


def bench_kind(bench: Bench, limit: float) -> Case:
    """All sides of a kind, compared."""
    case = bench.case
    full = bench.ours()
    case.rows = full[0]
    _say(case, "ours", "duckdb")
    sides = {"duckdb": bench.duckdb(limit)}
    bench.lookups(full)
    _say(case, "lookup", "spark")
    sides["spark"] = bench.own(limit)
    for side, found in sides.items():
        if found is not None and found != full:
            case.wrong.append(f"{side} has {found}, ours {full}")
    return case


def _say(case: Case, done: str, following: str) -> None:
    seconds = case.seconds.get(done, 0.0)
    print(f"  {case.kind}: {done} {seconds:.2f} s; now {following}", file=sys.stderr, flush=True)


# the table ----------------------------------------------------------------------------------------


def table(cases: Sequence[Case]) -> str:
    """Seconds of each side and their ratios."""
    busy = ("spark", "ours", "duckdb")
    heads = ("kind", "pairs", *(f"{side} s" for side in SIDES), *("/".join(r) for r in RATIOS))
    heads += tuple(f"{side} cpu" for side in busy)
    lines = [[*heads, "rows"]]
    for case in cases:
        times = [_shown(case.seconds.get(side), side in case.stopped, "") for side in SIDES]
        ratios = [_shown(case.ratio(*pair), pair[0] in case.stopped, "x") for pair in RATIOS]
        outcome = "; ".join(case.wrong) or "equal"
        cpu = [_shown(case.cpu.get(side), False, "") for side in busy]
        lines.append([case.kind, f"{case.rows:,}", *times, *ratios, *cpu, outcome])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            value.ljust(width) if at in (0, len(heads)) else value.rjust(width)
            for at, (value, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _shown(value: float | None, stopped: bool, unit: str) -> str:
    if value is None:
        return "-"
    return f"{'> ' if stopped else ''}{value:,.{0 if value >= 100 else 2}f}{unit and f' {unit}'}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, write the JSON; 1 when any sides differ or a kind is not accelerated."""
    from examples.tpch.report import machine

    options = _parser().parse_args(arguments)
    from deltajoin.runtime.session import local_session

    # The benchmark compares the first build with the others itself.
    spark = local_session("deltajoin-accelerators", conf={"spark.deltajoin.compareRows": "0"})
    home = options.home / f"accelerators-{os.getpid()}"
    described = {"left": options.left, "right": options.right, "machine": machine()}
    cases: list[Case] = []
    try:
        kinds = {kind.name: kind for kind in kinds_of(options.right)}
        for name in options.kinds.split(",") if options.kinds else kinds:
            kind = kinds[name]
            bench = Bench(spark, home / kind.name, kind, options.left, options.right)
            cases.append(bench_kind(bench, options.own_limit))
            print(table(cases[-1:]), file=sys.stderr, flush=True)
            if options.json:
                content = {**described, "cases": [case.to_dict() for case in cases]}
                options.json.write_text(json.dumps(content, indent=2))
            shutil.rmtree(home / kind.name)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    print(f"\n{options.left:,} x {options.right:,} rows\n{table(cases)}")
    return 1 if any(case.wrong for case in cases) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--left", type=int, default=1_000_000, help="rows of the left table")
    parser.add_argument("--right", type=int, default=100_000, help="rows of the right table")
    parser.add_argument("--kinds", default="", help="in this order, with commas; default: all")
    parser.add_argument(
        "--own-limit", type=float, default=120.0, help="seconds of Spark's own plan, and DuckDB's"
    )
    parser.add_argument("--home", type=Path, default=REPOSITORY / ".bench", help="for the tables")
    parser.add_argument("--json", type=Path, help="where all figures go")
    return parser


if __name__ == "__main__":
    sys.exit(main())
