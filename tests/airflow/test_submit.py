"""What spark-submit is given, and what a driver whose log is elsewhere leaves; without Spark."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.conftest import SECRETS, TABLES, Play
from tests.airflow.test_storage import connection
from tests.secrets import found_in
from tests.unit.s3 import BUCKET, SECRET_KEY, s3_server
from tests.unit.test_object_store import append, lake

#: A spark-submit that runs nothing: it notes what it got, and leaves an error as a job does.
STAND_IN = f"""#!{sys.executable}
import json, os, re, sys
from pathlib import Path
from deltajoin.catalog import open_files
from deltajoin.contract import SUBMISSION, failure_folder
from deltajoin.storage import storage
words, home = sys.argv[1:], Path(os.environ["ORDERS_HOME"])
file = Path(words[words.index("--properties-file") + 1])
text, job = file.read_text(), Path(words[-1]).read_text()
got = dict(words=words, file=str(file), mode=file.stat().st_mode & 0o777, text=text, job=job)
with (home / "got.jsonl").open("a") as out:
    out.write(json.dumps(got) + "\\n")
target = re.search("'target': .*?'location': '(.*?)'", job, re.DOTALL)[1]
code = "WINDOW_TIES" if ", incremental." in job else "KEY_VIOLATED"
error = dict(code=code, message="two rows", where=target, remedy="None.")
submission = re.search(f"^{{SUBMISSION}}=(.+)$", text, re.MULTILINE)[1]
with storage(json.loads(os.environ.get("LAKE", "{{}}"))):
    left = open_files(failure_folder(target, "://" in target))
    left.write_text("part-0.txt", json.dumps(dict(submission=submission, error=error)))
sys.exit("spark.own" in text)
"""


def put_before_spark(home: Path, env: dict[str, str]) -> None:
    """Let an environment find the stand-in."""
    script = home / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text(STAND_IN)
    script.chmod(0o755)
    env["PATH"] = f"{script.parent}{os.pathsep}{env['PATH']}"


def got(home: Path) -> list[dict[str, Any]]:
    """What each spark-submit got."""
    return [json.loads(line) for line in (home / "got.jsonl").read_text().splitlines()]


def test_settings_go_by_a_file_and_errors_come_by_one(
    play: Play, airflow_env: dict[str, str], tmp_path: Path
) -> None:
    """The first spark-submit ends with 0, as for a driver that a standalone cluster has run."""
    put_before_spark(tmp_path, airflow_env)
    own = "spark.own 1\nspark.log.level=INFO\\"
    (tmp_path / "own.properties").write_text(own)

    first, second = play(*TABLES, {"dag": "wrong_key"}, {"dag": "own_properties"})[2:]
    for outcome, target in ((first, "wrong_key"), (second, "own_properties")):
        assert (outcome["state"], outcome["tries"]) == ("failed", 1), outcome["log"][-4000:]
        assert "deltajoin KEY_VIOLATED: two rows" in outcome["log"]
        assert f"where: {tmp_path / target}" in outcome["log"]
        assert not (tmp_path / target).exists()
    assert [path for path in (tmp_path / "_deltajoin").rglob("*") if path.is_file()] == []

    submitted = got(tmp_path)
    assert len(submitted) == 2
    for one in submitted:
        assert found_in(" ".join(one["words"])) == []
        assert all(f"{name}={value}\n" in one["text"] for name, value in SECRETS.items())
        assert one["mode"] == 0o600
        assert not Path(one["file"]).exists()
    assert [one["words"].count("--load-spark-defaults") for one in submitted] == [1, 0]
    assert submitted[1]["text"].startswith(f"{own}\n\n")
    assert all(one["words"][-1].endswith("job.py") for one in submitted)


@pytest.mark.thorough
def test_a_rebuild_takes_the_place_of_a_job_whose_log_is_elsewhere(
    play: Play, airflow_env: dict[str, str], tmp_path: Path
) -> None:
    """In one attempt, over tables in S3; the rebuild's own error is the end."""
    put_before_spark(tmp_path, airflow_env)
    with s3_server() as s3:
        model = lake(s3, "submitted", tmp_path)
        append(model, "o", id=[10], customer=[1])
        airflow_env |= {"AIRFLOW_CONN_LAKE": connection(s3), "LAKE": json.dumps(s3.options)}
        (outcome,) = play({"dag": "submitted_to_s3"})
        left = s3.client().list_objects_v2(Bucket=BUCKET, Prefix="submitted/t/_deltajoin/failed")
    assert (outcome["state"], outcome["tries"]) == ("failed", 1), outcome["log"][-4000:]
    assert "deltajoin KEY_VIOLATED" in outcome["log"]
    jobs = [one["job"].splitlines()[:3] for one in got(tmp_path)]
    assert [", incremental." in job[0] for job in jobs] == [True, False]
    assert "WINDOW_TIES" in jobs[1][2]
    assert left["KeyCount"] == 0
    assert SECRET_KEY not in json.dumps(outcome)
