"""A project whose models run on a Spark Connect server: built, and kept over a change.

The profile alone says so, by `spark.remote`; no variable of the environment does.
"""

from __future__ import annotations

import pytest

from examples.flights.connect_server import connect_server
from tests.dbt.conftest import make_project, play_in
from tests.dbt.test_location import FILES


@pytest.mark.thorough
def test_models_on_a_connect_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("connected")
    with connect_server(folder / "server") as url:
        project = make_project(folder / "project", FILES, remote=url)
        raw = {"dbt": ["run-operation", "raw", "--args", f"{{folder: {folder / 'raw'}}}"]}
        steps = {
            "deps": {"dbt": ["deps"]},
            "raw": raw,
            "orders": {"sql": "insert into raw.orders select id, id % 5 from range(100)"},
            "customers": {"sql": "insert into raw.customers select id, 'c' from range(5)"},
            "first": {"dbt": ["run"]},
            "change": {"sql": "update raw.customers set name = 'd' where id = 3"},
            "second": {"dbt": ["run"]},
            "keyed": {"compare": "keyed"},
            "bag": {"compare": "bag"},
        }
        played = play_in(project, list(steps.values()))
        outcomes = dict(zip(steps, played, strict=True))
    for step, strategy in (("first", "full"), ("second", "incremental")):
        for name in ("keyed", "bag"):
            response = outcomes[step]["results"][name]["adapter_response"]
            assert response["deltajoin"]["strategy"] == strategy, outcomes[step]["output"]
    assert outcomes["keyed"] == outcomes["bag"] == {"rows": []}
