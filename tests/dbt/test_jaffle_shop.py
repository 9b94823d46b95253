"""The shop of examples/jaffle_shop over two daily loads: every mart equals dbt's plain table.

The demo itself plays ten days; here two and the run that finds nothing, in one process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import GIVEN, LONG_SESSION, SHORT_SESSION
from tests.dbt.conftest import REPOSITORY, environment

pytestmark = pytest.mark.thorough

DEMO = REPOSITORY / "examples" / "jaffle_shop" / "demo.py"
MARTS = {file.stem for file in (DEMO.parent / "models" / "marts").glob("*.sql")}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The demo's days."""
    folder = tmp_path_factory.mktemp("jaffle")
    java_options = LONG_SESSION if GIVEN == SHORT_SESSION else GIVEN  # it takes minutes
    command = [sys.executable, str(DEMO), "--days", "2", "--out", str(folder)]
    process = subprocess.run(
        command,
        env=environment(DELTAJOIN_JAVA_OPTIONS=java_options),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert process.returncode == 0, process.stdout[-4000:] + process.stderr[-4000:]
    days: list[dict[str, Any]] = json.loads((folder / "days.json").read_text())
    return days


def test_every_mart_equals_the_plain_table_on_every_day(story: list[dict[str, Any]]) -> None:
    assert len(story) == 3
    for day in story:
        assert set(day["marts"]) == MARTS
        for mart, outcome in day["marts"].items():
            assert outcome["rows"] > 0, (day["day"], mart)
            assert outcome["differing"] == 0, (day["day"], mart)


def test_marts_are_backfilled_once_and_then_kept(story: list[dict[str, Any]]) -> None:
    strategies = [{each["strategy"] for each in day["marts"].values()} for day in story]
    assert strategies == [{"full"}, {"incremental"}, {"noop"}]


def test_views_are_written_out_down_to_the_raw_tables(story: list[dict[str, Any]]) -> None:
    for outcome in story[1]["marts"].values():
        assert outcome["sources"]
        assert all(source.startswith("jaffle_raw.raw_") for source in outcome["sources"])
    assert story[1]["marts"]["fct_orders"]["sources"] == [
        f"jaffle_raw.raw_{name}" for name in ("customers", "items", "orders", "products", "stores")
    ]
