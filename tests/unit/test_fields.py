"""Fields keep the names of the columns that were written, whatever these are exchanged for."""

from __future__ import annotations

import pytest

from deltajoin.sql.bind import bind

COLUMNS = {"f": ("id", "k", "x", "rows"), "w": ("k", "y", "rows")}
BELOW = "FROM (SELECT k, x + 1 AS more, rows FROM f) AS q JOIN w ON w.k = q.k"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (
            "struct(q.More, (w.y), w.y + 1)",
            "struct((`f`.`x` + 1) AS `More`, (`w`.`y`) AS `y`, `w`.`y` + 1 AS `col3`)",
        ),
        ("(q.more, w.y).more", "struct((`f`.`x` + 1) AS `more`, `w`.`y` AS `y`).more"),
        ("struct(q.more AS z, 1)", "struct((`f`.`x` + 1) AS z, 1)"),
        ("to_json((w.y, w.rows.a))", "to_json(struct(`w`.`y` AS `y`, `w`.`rows`.`a` AS `a`))"),
        ("(w.y, q.more) IN ((1, 2))", "(`w`.`y`, (`f`.`x` + 1)) IN ((1, 2))"),
        ("((w.y, q.more)) IN ((1, 2))", "((`w`.`y`, (`f`.`x` + 1))) IN ((1, 2))"),
        (
            "arrays_zip(w.rows, array(1))",
            "transform(arrays_zip(concat(`w`.`rows`), concat(array(1))), "
            "e -> named_struct('rows', e['0'], '1', e['1']))",
        ),
        ("arrays_zip(array(1), array(w.y))", "arrays_zip(array(1), array(`w`.`y`))"),
        (
            "transform(w.rows, e -> struct(e, y))",
            "transform(`w`.`rows`, e -> struct(e, `w`.`y` AS `y`))",
        ),
    ],
)
def test_fields_are_named_as_they_were_written(written: str, meant: str) -> None:
    found = bind(f"SELECT {written} AS v {BELOW}", COLUMNS).graph
    assert found is not None
    assert found.projections[0].sql == meant


def test_fields_over_groups_keep_their_names() -> None:
    sql = "SELECT f.k, max(struct(f.x, w.y)) AS m FROM f JOIN w ON w.k = f.k GROUP BY f.k"
    found = bind(sql, COLUMNS).graph
    assert found is not None
    assert found.grouping is not None
    assert found.grouping.outputs[1] == (
        "m",
        "max(struct(`input`.`c0` AS `x`, `input`.`c1` AS `y`))",
    )
