"""Play steps in one process: `python drive.py <project folder> < steps.json`.

A step is {"dbt": [arguments]}, {"sql": statement}, {"compare": model} or {"write": [file, text]} in
the project's folder. dbt starts its own Spark session at its first statement and the next steps
share it, so that a whole story pays for one start. An outcome of dbt has `success`, `output` (what
it printed or raised) and `results` (of run_results.json by node name); of SQL `rows`, None when it
failed; of compare `rows`, those in which the model's relation and its compiled query differ. They
are left in outcomes.json in the project, because a JVM may print to the standard output.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any


def play(project: Path, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Play the steps in the project's folder; the session is stopped at the end."""
    from dbt.cli.main import dbtRunner

    os.chdir(project)
    runner = dbtRunner()
    seen: dict[str, Any] = {}
    outcomes = []
    try:
        for step in steps:
            if "dbt" in step:
                outcomes.append(_dbt(runner, project, step["dbt"]))
                seen.update(outcomes[-1]["results"])
            elif "write" in step:
                name, text = step["write"]
                outcomes.append({"bytes": (project / name).write_text(text, encoding="utf-8")})
            elif "compare" in step:
                outcomes.append(_difference(seen.get(step["compare"], {})))
            else:
                outcomes.append(_sql(step["sql"]))
    finally:
        _session().stop()
    return outcomes


def _dbt(runner: Any, project: Path, arguments: list[str]) -> dict[str, Any]:
    artifact = project / "target" / "run_results.json"
    artifact.unlink(missing_ok=True)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        outcome = runner.invoke([*arguments, "--no-use-colors"])
    results = json.loads(artifact.read_text())["results"] if artifact.exists() else []
    text = output.getvalue() + str(outcome.exception or "")
    print(text, file=sys.stderr)
    return {
        "success": outcome.success,
        "output": text,
        "results": {result["unique_id"].split(".")[2]: result for result in results},
    }


def _sql(statement: str) -> dict[str, Any]:
    try:
        rows = _session().sql(statement).collect()
    except Exception as error:
        return {"rows": None, "output": str(error)}
    return {"rows": [[str(value) for value in row] for row in rows]}


def _difference(result: dict[str, Any]) -> dict[str, Any]:
    table, query = result.get("relation_name"), result.get("compiled_code")
    return _sql(
        f"(select 'extra', * from (select * from {table} except all ({query})))"
        f" union all (select 'missing', * from (({query}) except all select * from {table}))"
    )


def _session() -> Any:
    """dbt's own: the project's profile names its Spark Connect server, where there is one."""
    import yaml
    from pyspark.sql import SparkSession

    (profile,) = yaml.safe_load(Path("profiles.yml").read_text())["shop"]["outputs"].values()
    remote = profile["server_side_parameters"].get("spark.remote")
    builder = SparkSession.builder
    return (builder.remote(remote) if remote else builder).getOrCreate()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    played = play(folder, json.load(sys.stdin))
    (folder / "outcomes.json").write_text(json.dumps(played))
