"""What a DAG processor sees: light imports, early refusals, the provider's entry."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
HEAVY = ("pyspark", "deltalake", "sqlglot", "pyarrow", "pandas")

PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag({folder!r})
loaded = [name for name in {heavy!r} if name in sys.modules]
print(json.dumps([sorted(bag.dags), bag.import_errors, loaded]))
"""
REFUSE = """
from deltajoin.adapters.airflow.frontier import DeltaJoinFrontierOperator
from deltajoin.adapters.airflow.operator import DeltaJoinOperator
try:
    DeltaJoinFrontierOperator(task_id="freeze", sources="/lake/orders")
except Exception as error:
    print(type(error).__name__, " ".join(str(error).splitlines()))
for wrong in (
    dict(sql="select 1"),
    dict(sql="select 1", sources={}, target="t", submit="by_mail"),
    dict(model="m.yml", target="t"),
    dict(model="m.yml", generated_sql="select 2"),
    dict(model="m.yml", audit_summary="all is well"),
):
    try:
        DeltaJoinOperator(task_id="join", **wrong)
    except Exception as error:
        print(type(error).__name__, " ".join(str(error).splitlines()))
    else:
        print("accepted", wrong)
"""
PROVIDER = """
from airflow.providers_manager import ProvidersManager
print(ProvidersManager().providers["deltajoin"].data["name"])
"""


def run(code: str, env: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip().splitlines()


def test_dags_parse_without_spark(airflow_env: dict[str, str]) -> None:
    code = PARSE.format(folder=str(REPOSITORY / "dags"), heavy=HEAVY)
    dags, errors, loaded = json.loads(run(code, airflow_env)[-1])
    assert dags == ["flights_alternates", "flights_by_airline", "flights_enriched"]
    assert errors == {}
    assert loaded == []


def test_wrong_arguments_are_refused_at_parse_time(airflow_env: dict[str, str]) -> None:
    freeze, *lines = run(REFUSE, airflow_env)[-6:]
    assert freeze.startswith("DeltaJoinError OPERATOR_ARGUMENTS: sources is not a list of paths")
    assert lines[0].startswith("DeltaJoinError OPERATOR_ARGUMENTS: no sources; no target")
    assert "submit='by_mail'" in lines[1]
    assert "target beside model" in lines[2]
    assert "generated_sql" in lines[3]
    assert "audit_summary" in lines[4]
    assert not any(line.startswith("accepted") for line in lines)


def test_provider_is_listed(airflow_env: dict[str, str]) -> None:
    assert run(PROVIDER, airflow_env)[-1] == "deltajoin"
