"""Every join type against every way in which one key's matches can change.

Rows of the left side come, change, go or stay; the right side has 0, 1 or 2 matches before and 0, 1
or 2 after; the key is a value or NULL. One epoch each, both sides in it, checked by the oracle.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.property.cases import Case, Change, Commit, Table
from tests.property.oracle import check

JOINS = {
    "inner": "SELECT a.k, a.v, b.v AS w FROM a JOIN b ON a.k = b.k",
    "left": "SELECT a.k, a.v, b.v AS w FROM a LEFT JOIN b ON a.k = b.k",
    "right": "SELECT a.k, a.v, b.v AS w FROM a RIGHT JOIN b ON a.k = b.k",
    "full": "SELECT a.k, a.v, b.k AS l, b.v AS w FROM a FULL JOIN b ON a.k = b.k",
    "null-safe left": "SELECT a.k, a.v, b.v AS w FROM a LEFT JOIN b ON a.k <=> b.k",
    "left with residual": "SELECT a.k, a.v, b.v AS w FROM a LEFT JOIN b ON a.k = b.k AND b.v > a.v",
    "semi": "SELECT a.k, a.v FROM a LEFT SEMI JOIN b ON a.k = b.k",
    "anti": "SELECT a.k, a.v FROM a LEFT ANTI JOIN b ON a.k = b.k",
    "exists": "SELECT a.k, a.v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "not exists": "SELECT a.k, a.v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "in": "SELECT a.k, a.v FROM a WHERE a.k IN (SELECT b.k FROM b)",
    "not in": "SELECT a.k, a.v FROM a WHERE a.k NOT IN (SELECT b.k FROM b)",
    "not in, correlated": "SELECT a.k, a.v FROM a WHERE a.v NOT IN "
    "(SELECT b.v FROM b WHERE b.k = a.k)",
    "not in, never NULL": "SELECT a.k, a.v FROM a WHERE a.k IS NOT NULL AND a.k NOT IN "
    "(SELECT b.k FROM b WHERE b.k IS NOT NULL)",
    "in groups": "SELECT a.k, a.v FROM a WHERE a.k IN (SELECT max(b.k) FROM b GROUP BY b.k)",
    "not in groups": "SELECT a.k, a.v FROM a WHERE a.v NOT IN "
    "(SELECT count(*) + 4 FROM b GROUP BY b.k HAVING b.k = 1 OR b.k IS NULL)",
    "exists, no column": "SELECT a.k, a.v FROM a WHERE EXISTS "
    "(SELECT 1, 1 FROM (SELECT i FROM b LATERAL VIEW explode(array(b.k)) e AS i) AS c "
    "WHERE c.i = 1)",
    "left, less": "SELECT a.k, a.v, b.v AS w FROM a LEFT JOIN b ON a.v < b.v",
    "full, less": "SELECT a.k, a.v, b.v AS w FROM a FULL JOIN b ON a.k <= b.k",
    "anti, all rows": "SELECT a.k, a.v FROM a LEFT ANTI JOIN b ON a.k + b.k > 3",
    "full under left": "SELECT a.k, a.v, c.v AS w FROM a LEFT JOIN "
    "(b FULL JOIN b AS c ON b.k = c.v) ON a.k = b.k",
    "chain of full": "SELECT k, a.v, b.v AS w, c.v AS x FROM a FULL JOIN b USING (k) "
    "FULL JOIN b AS c USING (k)",
    "missing": "SELECT a.k, a.v FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL",
    "grouped": "SELECT a.k, count(b.v) AS n, sum(b.v) AS s FROM a LEFT JOIN b USING (k) GROUP BY 1",
}
LEFT = ("stays", "insert", "update", "delete")
COLUMNS = (("k", "int"), ("v", "int"))


def case_of(query: str, left: str, before: int, after: int, key: int | None) -> Case:
    others = ((1, (7, 1)), (2, (8, 1)))
    rows = (*others, *(() if left == "insert" else ((3, (key, 5)),)))
    a = Table("a", COLUMNS, (), rows)
    b = Table("b", COLUMNS, (), ((11, (7, 2)), *((20 + i, (key, 9 + i)) for i in range(before))))
    commits = []
    if left != "stays":
        commits.append(Commit("a", (Change(left, 3, () if left == "delete" else (key, 6)),)))
    changes = [Change("delete", 20 + i) for i in range(after, before)]
    changes += [Change("insert", 20 + i, (key, 30 + i)) for i in range(before, after)]
    if before == after > 0:
        changes.append(Change("update", 20, (key, 40)))
    if changes:
        commits.append(Commit("b", tuple(changes)))
    return Case(0, (a, b), (), (), (), (tuple(commits),), query=query)


@pytest.mark.sampled
@pytest.mark.parametrize("join", JOINS)
def test_every_change_of_matches(join: str) -> None:
    for left, before, after, key in product(LEFT, range(3), range(3), (1, None)):
        outcomes = list(check(case_of(JOINS[join], left, before, after, key)))
        assert outcomes
        for outcome in outcomes:
            assert not outcome.problem, (left, before, after, key, outcome.problem)
