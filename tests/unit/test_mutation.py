"""The defects of `tests.mutation` can be made: each text stands in its module exactly once."""

from __future__ import annotations

from tests.mutation import DEFECTS, REPOSITORY


def test_every_defect_can_be_made() -> None:
    package = REPOSITORY / "plugin/deltajoin"
    counts = {
        (defect.module, defect.name): (package / defect.module)
        .read_text("utf-8")
        .count(defect.right)
        for defect in DEFECTS
    }
    assert {found: count for found, count in counts.items() if count != 1} == {}
