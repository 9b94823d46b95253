"""Pins: what they hold fast, what they refuse, and how a run's models are put in order."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

import deltajoin
from deltajoin import api
from deltajoin.adapters.cli import main
from deltajoin.catalog import TargetCommit, TargetState, load_table
from deltajoin.chain import run_all
from deltajoin.delta.frontier import Frontier, refuse_behind
from deltajoin.errors import DeltaJoinError
from deltajoin.places import Logs
from tests.spark.shop import KEYS, SQL, Shop, never, open_shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return open_shop(tmp_path / "shop")


def code_of(call: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(DeltaJoinError) as caught:
        call(*args, **options)
    return caught.value.code


def test_a_pinned_table_stays_where_it_was(shop: Shop, tmp_path: Path) -> None:
    """Also under another name of its folder."""
    frontier = Frontier()
    first = frontier.table("orders", shop.path("orders"))
    shop.append("orders", (100, 1, 5))
    link = tmp_path / "link"
    link.symlink_to(shop.root)
    for place in (shop.path("orders"), f"{link}/orders/", f"file://{shop.root}/orders"):
        again = frontier.table("orders", place)
        assert (again.version, again.rows) == (first.version, first.rows) == (0, 40)
    assert load_table("orders", shop.path("orders")).rows == 41
    pin = {"id": first.table_id, "version": 0}
    assert frontier.to_dict() == {shop.path("orders"): pin}

    frontier.produced(shop.path("orders"), 1)
    assert frontier.table("orders", shop.path("orders")).rows == 41


def test_plans_read_the_pinned_versions(shop: Shop) -> None:
    at = {shop.path(name): 0 for name in KEYS}
    before = deltajoin.plan(shop.model(), at=at)
    shop.append("orders", (100, 1, 5))
    shop.update("customers", "customer_id = 1", name="'changed'")
    assert deltajoin.plan(shop.model(), at=at).to_dict() == before.to_dict()
    assert deltajoin.plan(shop.model()).frontier()["orders"]["version"] == 1


def test_a_closed_frontier_knows_no_other_table(shop: Shop) -> None:
    frontier = Frontier()
    frontier.table("orders", shop.path("orders"))
    handed_over = Frontier.read(json.dumps(frontier.to_dict()))
    assert handed_over.to_dict() == frontier.to_dict()
    frontier.close()
    for closed in (frontier, handed_over):
        assert code_of(deltajoin.plan, shop.model(), at=closed) == "NOT_IN_FRONTIER"


def test_a_version_that_is_gone_or_of_another_table(shop: Shop) -> None:
    shop.append("orders", (100, 1, 5))
    frontier = Frontier()
    for name in KEYS:
        frontier.table(name, shop.path(name))
    shutil.rmtree(shop.path("orders"))
    assert code_of(deltajoin.plan, shop.model(), at=frontier) == "SOURCE_MISSING"
    other = open_shop(shop.root.with_name("other"))
    shutil.copytree(other.path("orders"), shop.path("orders"))
    assert code_of(deltajoin.plan, shop.model(), at=frontier) == "FRONTIER_LOST"
    shop.append("orders", (100, 1, 5))
    assert code_of(deltajoin.plan, shop.model(), at=frontier) == "FRONTIER_LOST"


def test_files_that_changed_since_they_were_pinned(tmp_path: Path) -> None:
    """The same folder, of the same id: their version is a fingerprint."""
    file = tmp_path / "rates.csv"
    file.write_text("code\na\n")
    pinned = Frontier()
    pinned.table("rates", str(file))
    file.write_text("code\nb\n")
    at = Frontier.read(pinned.to_dict())
    assert code_of(at.table, "rates", str(file)) == "FRONTIER_LOST"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"/t": -1}, "INVALID_FRONTIER"),
        ({"/t": True}, "INVALID_FRONTIER"),
        ({"/t": "1"}, "INVALID_FRONTIER"),
        ({"/t": {"id": 5, "version": 1}}, "INVALID_FRONTIER"),
        ({5: 5}, "INVALID_FRONTIER"),
        (5, "INVALID_FRONTIER"),
        ([None], "INVALID_FRONTIER"),
        ("{'/t': 1}", "INVALID_FRONTIER"),
        ("null", "INVALID_FRONTIER"),
        ([{"/t": 1}, {"/t/": 2}], "FRONTIER_CONFLICT"),
        ([{"/t": 2}, {"/t/": 1}], "FRONTIER_CONFLICT"),
        (
            [{"/t": {"id": "a", "version": 1}}, {"/t": {"id": "b", "version": 1}}],
            "FRONTIER_CONFLICT",
        ),
    ],
)
def test_what_is_no_frontier(given: Any, code: str) -> None:
    assert code_of(Frontier.read, given) == code


def test_equal_pins_of_several_frontiers_are_one() -> None:
    parts = [{"/t": {"id": "a", "version": 1}}, json.dumps({"/u": 2, "/t/": 1})]
    assert Frontier.read(parts).to_dict() == {
        "/t": {"id": "a", "version": 1},
        "/u": {"id": None, "version": 2},
    }
    with pytest.raises(DeltaJoinError, match="FRONTIER_CONFLICT"):
        Frontier.read([{"/t": 1}, *({"/t": {"id": id_, "version": 1}} for id_ in "ab")])


def consumed(shop: Shop, version: int) -> TargetState:
    """A target whose last epoch consumed this version of orders."""
    at = load_table("orders", shop.path("orders"), version)
    entry = {"location": at.location, "id": at.table_id, "version": version}
    record = {"epoch": 3, "frontier": {"orders": entry}}
    ours = TargetCommit(7, 0, "MERGE", {}, json.dumps({"deltajoin": record}), True)
    later = TargetCommit(8, 0, "OPTIMIZE", {}, None, False)
    return TargetState("/target", "t", 8, (), (), (later, ours))


def test_a_pin_older_than_what_was_consumed(shop: Shop) -> None:
    """Refused while the log still knows what was consumed; a log that was cut is another matter."""
    for order in (100, 101):
        shop.append("orders", (order, 1, 5))
    state = consumed(shop, 2)
    tables = {v: {"orders": load_table("orders", shop.path("orders"), v)} for v in range(3)}
    refuse_behind(tables[2], state)
    refuse_behind(tables[0], None)
    refuse_behind({}, state)
    assert code_of(refuse_behind, tables[1], state) == "FRONTIER_BEHIND"

    shop_log = Path(shop.path("orders"), "_delta_log")
    (shop_log / f"{2:020d}.json").unlink()
    refuse_behind(tables[1], state)


def chained(shop: Shop, name: str, *read: str, **changes: Any) -> deltajoin.Model:
    """A model over the targets of others; `target` is named as the model."""
    tables = " JOIN ".join(
        f"{table} USING (order_id)" if i else table for i, table in enumerate(read)
    )
    fields: dict[str, Any] = {
        "name": name,
        "sql": f"SELECT order_id FROM {tables}",
        "sources": {table: shop.path(table) for table in read},
        "target": shop.path(name),
    }
    return deltajoin.Model(**{**fields, **changes})


def test_cycles_and_shared_targets_are_refused_before_anything_runs(shop: Shop) -> None:
    ring = [chained(shop, "a", "c"), chained(shop, "b", "a"), chained(shop, "c", "b", "orders")]
    last = chained(shop, "d", "a")
    with pytest.raises(DeltaJoinError, match="MODEL_CYCLE.*: a, b, c, d") as caught:
        run_all([last, *ring], never)
    assert caught.value.where == "a"
    first = chained(shop, "x", "orders")
    for target in (first.target, first.target + "/", first.target + "/inside"):
        second = chained(shop, "y", "orders", target=target)
        assert code_of(run_all, [first, second], never) == "TARGET_TWICE"
    assert not Path(first.target).exists()


def test_failures_before_spark(shop: Shop) -> None:
    """Each with its code, whatever the order of the list, and no session for any of them."""
    models = [
        chained(shop, "own", "own", "orders"),
        chained(shop, "missing", "nowhere"),
        chained(shop, "after", "missing", "orders"),
        chained(shop, "last", "after", "wrong"),
        chained(shop, "wrong", "orders", sql="SELECT 'a FROM orders"),
        chained(shop, "cat", "t", sources={"t": "db.t"}),
    ]
    wanted = {
        "missing": ("failed", "SOURCE_MISSING"),
        "own": ("failed", "SOURCE_MISSING"),
        "after": ("skipped", "UPSTREAM_FAILED"),
        "wrong": ("failed", "SQL_PARSE_ERROR"),
        "last": ("skipped", "UPSTREAM_FAILED"),
    }
    for listed in (models[:-1], models[-2::-1]):
        seen = []
        summary = run_all(listed, never, on_run=seen.append)
        assert {r.model: (r.status, r.code) for r in summary.runs} == wanted
        assert tuple(seen) == summary.runs
        assert [r.model for r in summary.runs] == ["missing", "after", "own", "wrong", "last"]
        assert json.loads(json.dumps(summary.to_dict()))["failed"] == [r.model for r in seen]


def test_an_exception_of_no_code_is_told_with_its_cause(shop: Shop) -> None:
    def broken() -> Any:
        raise OSError("no space left")

    model = chained(shop, "a", "orders", "customers", sql=SQL)
    (one,) = run_all([model], broken).runs
    assert (one.status, one.code) == ("failed", "UNEXPECTED_FAILURE")
    assert one.error is not None
    assert isinstance(one.error.__cause__, OSError)
    assert "no space left" in one.error.message


def test_the_command_line_tells_each_model_and_fails(shop: Shop) -> None:
    """One JSON document on stdout, the rest on stderr; 1 as soon as a model did not run."""
    files = []
    for name, sources in (("a", {"t": "gone"}), ("b", {"a": "a"})):
        file = shop.root / f"{name}.yml"
        model = {"sql": f"SELECT * FROM {next(iter(sources))}", "target": f"./{name}"}
        places = {table: f"./{place}" for table, place in sources.items()}
        file.write_text(json.dumps({**model, "sources": places}))
        files.append(str(file))
    done = CliRunner().invoke(main, ["run-all", "--json", *files])
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert [(r["model"], r["code"]) for r in told["runs"]] == [
        ("a", "SOURCE_MISSING"),
        ("b", "UPSTREAM_FAILED"),
    ]
    assert "2 of 2 did not run: a, b" in done.stderr
    plain = CliRunner().invoke(main, ["run-all", *files])
    assert (plain.exit_code, plain.stdout.count("UPSTREAM_FAILED")) == (1, 1)
    ring = CliRunner().invoke(main, ["run-all", "--json", files[0], files[0]])
    assert json.loads(ring.stdout)["error"]["code"] == "TARGET_TWICE"
    assert CliRunner().invoke(main, ["run-all"]).exit_code == 2


@pytest.mark.parametrize("place", ["s.parquet", "s.parquet/*.parquet"])
def test_the_frontier_of_a_plan_may_hold_files(tmp_path: Path, place: str) -> None:
    """As a plan or record has it: by source, with the ids that tell files from tables."""
    rows = pa.table({"k": [1], "v": [2]})
    write_deltalake(str(tmp_path / "t"), rows)
    (tmp_path / "s.parquet").mkdir()
    pq.write_table(rows, tmp_path / "s.parquet" / "a.parquet")
    sources = {"t": str(tmp_path / "t"), "s": str(tmp_path / place)}
    sql = "SELECT t.k, s.v FROM t JOIN s ON t.k = s.k"
    model = deltajoin.Model("m", sql, sources, str(tmp_path / "target"))
    planned = deltajoin.plan(model)
    at = api._pinned(Logs(model, None), planned.frontier())
    assert deltajoin.plan(model, at=at).hash == planned.hash
