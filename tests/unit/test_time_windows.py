"""window(): what is grouped by instead, and which calls are not kept."""

from __future__ import annotations

import pytest

from deltajoin.sql.bind import BoundQuery, bind

TYPES = {("t", "at"): "timestamp", ("t", "tn"): "timestamp_ntz"}
TYPES |= {("t", "k"): "int", ("w", "k"): "int"}
DAY = "timestamp_micros(unix_micros(`t`.`at`) - pmod(unix_micros(`t`.`at`), 86400000000))"


def bound(sql: str) -> BoundQuery:
    return bind(sql, {"t": ("at", "k", "tn"), "w": ("k", "window")}, TYPES)


KEPT = {
    "SELECT window.start, window FROM t GROUP BY window(at, '1 day')": "start window",
    "SELECT window(at, '1 day') AS w, count(*) AS n FROM t GROUP BY w": "w n",
    "SELECT window(at, '1 day').start AS s, k FROM t GROUP BY 1, k": "s k",
    "SELECT k FROM t x GROUP BY k, window(x.at, '24 hours') HAVING window.start > '2026'": "k",
    "SELECT k, window(at, '1 day') FROM t": "k window",
    "WITH d AS (SELECT window(at, '1 day') AS w FROM t) SELECT w.start AS s FROM d GROUP BY w": "s",
}


@pytest.mark.parametrize("sql", KEPT)
def test_what_is_kept(sql: str) -> None:
    query = bound(sql)
    assert query.graph is not None, query.reason
    assert " ".join(query.graph.output_names) == KEPT[sql]
    (there,) = query.graph.branches[0].predicates
    assert there.sql.endswith("`.`at` IS NULL")


def test_a_correlated_total_reads_starts() -> None:
    sql = "SELECT k, (SELECT max(window(at, '1 day').start) FROM t WHERE t.k = w.k) AS m FROM w"
    graph = bound(sql).graph
    assert graph is not None
    grouping = graph.derived[0].graph.grouping
    assert grouping is not None
    assert grouping.outputs[0][1] == f"max({DAY.replace('`t`.`at`', '`input`.`c0`')})"


def test_the_start_alone_is_the_key() -> None:
    graph = bound("SELECT window.end AS e FROM t GROUP BY k, window(at, '1 day')").graph
    assert graph is not None
    assert graph.grouping is not None
    assert [p.sql for p in graph.projections] == ["`t`.`k`", DAY]
    assert graph.grouping.outputs == (
        ("e", "timestamp_micros(unix_micros(`input`.`g1`) + 86400000000)"),
    )


def test_a_sliding_window_is_made_by_a_generator() -> None:
    sql = "SELECT window.start AS s FROM t GROUP BY window(at, '1 day', '{}')"
    for slide, conditions, numbers in (("12 hours", 0, "0, 1"), ("10 hours", 1, "0, 1, 2")):
        graph = bound(sql.format(slide)).graph
        assert graph is not None
        assert graph.generation is not None
        assert graph.generation.generators[0].call == f"explode(array({numbers}))"
        assert len(graph.generation.conditions) == conditions


OPAQUE = {
    "SELECT count(*) AS n FROM t GROUP BY window(tn, '1 day')": "timestamp_ntz",
    "SELECT count(*) AS n FROM t GROUP BY window(at, '1 month')": "lengths",
    "SELECT count(*) AS n FROM t GROUP BY window(at, '1 day', '2 days')": "lengths",
    "SELECT count(*) AS n FROM t GROUP BY window(at, concat('1 ', 'day'))": "lengths",
    "SELECT window(at, '1 hour') AS h, count(*) AS n FROM t GROUP BY h, window(at, '1 day')": (
        "several lengths"
    ),
    "SELECT DISTINCT window(at, '1 day') AS d FROM t": "DISTINCT",
    "SELECT *, window(at, '1 day') AS d FROM t": "beside *",
    "SELECT window(at, '1 day') AS d, count(*) AS n FROM t GROUP BY ALL": "GROUP BY ALL",
    "SELECT count(*) AS n FROM t JOIN w USING (k) GROUP BY window(t.at, '1 day')": "another thing",
    "SELECT count(*) AS n FROM t AS window GROUP BY window(at, '1 day')": "another thing",
    "SELECT k, window(at, '1 day', '1 hour') AS d FROM t": "sliding",
    "SELECT window.middle AS m FROM t GROUP BY window(at, '1 day')": "no part of a window",
    "SELECT window.start AS m FROM t GROUP BY ROLLUP (window(at, '1 day'))": "window()",
    "SELECT k FROM t WHERE window(at, '1 day').start > '2026-01-01'": "window()",
    "SELECT count(*) AS n FROM t GROUP BY session_window(at, '1 day')": "session_window()",
}


@pytest.mark.parametrize("sql", OPAQUE)
def test_what_is_not_kept(sql: str) -> None:
    reason = bound(sql).reason
    assert reason is not None
    assert reason.code == "GENERATOR"
    assert OPAQUE[sql] in reason.message
