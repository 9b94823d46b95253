"""What spark-submit is given, and what a driver whose log is elsewhere leaves; without Spark."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.airflow.conftest import SECRETS, TABLES, Play
from tests.secrets import found_in

#: A spark-submit that runs nothing: it notes what it got, and leaves an error as a job does.
STAND_IN = f"""#!{sys.executable}
import json, os, re, sys
from pathlib import Path
from deltajoin.contract import SUBMISSION, failure_file
words, home = sys.argv[1:], Path(os.environ["ORDERS_HOME"])
file = Path(words[words.index("--properties-file") + 1])
text = file.read_text()
got = dict(words=words, file=str(file), mode=file.stat().st_mode & 0o777, text=text)
with (home / "got.jsonl").open("a") as out:
    out.write(json.dumps(got) + "\\n")
target = "own_properties" if "spark.own" in text else "wrong_key"
folder, name = map(Path, failure_file(str(home / target), False))
folder.mkdir(exist_ok=True)
error = dict(code="KEY_VIOLATED", message="two rows", where=target, remedy="None.")
submission = re.search(f"^{{SUBMISSION}}=(.+)$", text, re.MULTILINE)[1]
(folder / name).write_text(json.dumps(dict(submission=submission, error=error)))
sys.exit(target == "own_properties")
"""


def test_settings_go_by_a_file_and_errors_come_by_one(
    play: Play, airflow_env: dict[str, str], tmp_path: Path
) -> None:
    """The first spark-submit ends with 0, as for a driver that a standalone cluster has run."""
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text(STAND_IN)
    script.chmod(0o755)
    airflow_env["PATH"] = f"{script.parent}{os.pathsep}{airflow_env['PATH']}"
    own = "spark.own 1\nspark.log.level=INFO\\"
    (tmp_path / "own.properties").write_text(own)

    first, second = play(*TABLES, {"dag": "wrong_key"}, {"dag": "own_properties"})[2:]
    for outcome, target in ((first, "wrong_key"), (second, "own_properties")):
        assert (outcome["state"], outcome["tries"]) == ("failed", 1), outcome["log"][-4000:]
        assert "deltajoin KEY_VIOLATED: two rows" in outcome["log"]
        assert f"where: {target}" in outcome["log"]
        assert not (tmp_path / target).exists()
    assert list((tmp_path / "_deltajoin").iterdir()) == []

    got = [json.loads(line) for line in (tmp_path / "got.jsonl").read_text().splitlines()]
    assert len(got) == 2
    for one in got:
        assert found_in(" ".join(one["words"])) == []
        assert all(f"{name}={value}\n" in one["text"] for name, value in SECRETS.items())
        assert one["mode"] == 0o600
        assert not Path(one["file"]).exists()
    assert [one["words"].count("--load-spark-defaults") for one in got] == [1, 0]
    assert got[1]["text"].startswith(f"{own}\n\n")
    assert all(one["words"][-1].endswith("job.py") for one in got)
