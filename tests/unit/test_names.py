"""The columns of stars and of USING, in Spark's order, and the names of fields."""

from __future__ import annotations

import pytest

from deltajoin.errors import DeltaJoinError
from deltajoin.sql.bind import BoundQuery, bind

COLUMNS = {"a": ("x", "k"), "b": ("k", "y"), "c": ("z", "k", "x"), "s": ("k", "st")}


def bound(sql: str) -> BoundQuery:
    return bind(sql, COLUMNS)


STARS = {
    "SELECT * FROM a JOIN b USING (k)": "k=a.k x=a.x y=b.y",
    "SELECT * FROM a RIGHT JOIN b USING (k)": "k=b.k x=a.x y=b.y",
    "SELECT a.* FROM a JOIN b USING (k)": "k=a.k x=a.x",
    "SELECT a.* FROM a RIGHT JOIN b USING (k)": "k=a.k x=a.x",
    "SELECT b.* FROM a LEFT JOIN b USING (k)": "k=b.k y=b.y",
    "SELECT * FROM a LEFT SEMI JOIN b USING (k)": "k=a.k x=a.x",
    "SELECT * FROM a LEFT ANTI JOIN c USING (x)": "x=a.x k=a.k",
    "SELECT * FROM b JOIN a USING (k) JOIN c USING (x, k)": "x=a.x k=b.k y=b.y z=c.z",
    "SELECT * FROM a JOIN b USING (k) JOIN c USING (x) WHERE c.k = 1": None,
    "SELECT * FROM a NATURAL JOIN c": "x=a.x k=a.k z=c.z",
    "SELECT * EXCEPT (b.k) FROM a JOIN b ON a.k = b.k": "x=a.x k=a.k y=b.y",
    "SELECT * EXCEPT (K, y) FROM a JOIN b USING (k)": "x=a.x",
    "SELECT a.* EXCEPT (k), z FROM a JOIN c ON a.k = c.k": "x=a.x z=c.z",
    "SELECT k, z FROM a JOIN b ON a.x = b.y AND a.x = 1 JOIN c USING (k)": None,
    "SELECT a.k, z FROM a JOIN b ON a.x = b.y JOIN c USING (k)": "k=a.k z=c.z",
}


@pytest.mark.parametrize("sql", STARS)
def test_columns_in_spark_s_order(sql: str) -> None:
    wanted = STARS[sql]
    if wanted is None:
        with pytest.raises(DeltaJoinError, match=r"AMBIGUOUS_COLUMN|DUPLICATE_COLUMN"):
            bound(sql)
        return
    graph = bound(sql).graph
    assert graph is not None
    found = [f"{p.name}={p.sql}".replace("`", "") for p in graph.projections]
    assert " ".join(found) == wanted


REBUILT = {
    "SELECT * EXCEPT (st.f) FROM s": "STAR",
    "SELECT st.* FROM s": "STAR",
    "SELECT s.st.* FROM s": "STAR",
    "SELECT * EXCEPT (k) FROM a JOIN b ON a.k = b.k": "STAR",
    "SELECT * EXCEPT (b.k) FROM a JOIN b USING (k)": "STAR",
    "SELECT * FROM (SELECT k, x + 1 FROM a) AS z": "UNNAMED_COLUMN",
    "SELECT z.`(x + 1)` AS n FROM (SELECT k, x + 1 FROM a) AS z": "UNNAMED_COLUMN",
    "SELECT a.* FROM a NATURAL SEMI JOIN b": "JOIN_KIND",
}


@pytest.mark.parametrize("sql", REBUILT)
def test_what_only_spark_can_name_is_rebuilt(sql: str) -> None:
    found = bound(sql)
    assert found.reason is not None
    assert found.reason.code == REBUILT[sql]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT z.k FROM (SELECT k, x + 1 FROM a) AS z",
        "SELECT z.x FROM (SELECT x, k AS n, k + 1 AS n FROM a) AS z",
        "SELECT z.k FROM (SELECT *, k FROM a) AS z",
    ],
)
def test_columns_that_nobody_reads_need_no_name(sql: str) -> None:
    assert bound(sql).graph is not None


def test_fields_keep_their_names() -> None:
    fields = "struct(z.N, k, 1, z.n + 1, x AS y) AS s, (z.n, k) AS r, z.n IN (1, 2) AS i"
    graph = bound(f"SELECT {fields} FROM (SELECT k, x, x + k AS n FROM a) AS z").graph
    assert graph is not None
    shown = [p.sql.replace("`a`.", "").replace("`", "") for p in graph.projections]
    assert shown == [
        "struct((x + k) AS N, k AS k, 1, (x + k) + 1 AS col4, x AS y)",
        "struct((x + k) AS n, k AS k)",
        "(x + k) IN (1, 2)",
    ]
