"""The ledger's folder: whole texts only, left alone by Delta."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import deltajoin
from deltajoin.catalog import load_target
from deltajoin.catalog.files import LocalFiles, RemoteFiles, open_files
from deltajoin.contract import LEDGER

NAME = "plans/00000001.json"


def test_texts_are_kept_under_the_ledger_folder(tmp_path: Path) -> None:
    store = open_files(f"{tmp_path.as_uri()}/target/{LEDGER}")
    assert (store.read_text(NAME), store.exists(NAME), store.list("plans")) == (None, False, ())

    store.write_text(NAME, "one ü")
    store.write_text(NAME, "two ü")

    assert store.read_text(NAME) == "two ü"
    assert store.exists(NAME)
    assert store.list("plans") == ("00000001.json",)
    assert store.list("") == ("plans",)
    assert (tmp_path / "target" / "_deltajoin" / NAME).read_text(encoding="utf-8") == "two ü"


@pytest.mark.crash
def test_a_kill_leaves_only_whole_texts(tmp_path: Path) -> None:
    code = (
        "import itertools, sys\n"
        "from deltajoin.catalog.files import LocalFiles\n"
        "files = LocalFiles(sys.argv[1])\n"
        "for n in itertools.count():\n"
        "    files.write_text(f'put/{n}', 'x' * 200_000)\n"
        "    files.write_text('same', str(n % 10) * 200_000)\n"
    )
    package = Path(deltajoin.__file__).parents[1]
    for attempt in range(5):
        root = tmp_path / str(attempt)
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(root)], env={**os.environ, "PYTHONPATH": str(package)}
        )
        files = LocalFiles(str(root))
        while not files.list("put"):
            time.sleep(0.01)
        time.sleep(0.013 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert all(files.read_text(f"put/{n}") == "x" * 200_000 for n in files.list("put"))
        same = files.read_text("same")
        assert same is None or (len(same) == 200_000 and len(set(same)) == 1)


def test_other_schemes_go_through_deltalake(tmp_path: Path) -> None:
    files = RemoteFiles(tmp_path.as_uri())
    assert (files.read_text(NAME), files.exists(NAME), files.list("plans")) == (None, False, ())
    files.write_text(NAME, "one")
    files.write_text("plans/00000002.json", "two ü")
    assert files.read_text(NAME) == "one"
    assert files.read_text("plans/00000002.json") == "two ü"
    assert files.list("plans") == ("00000001.json", "00000002.json")


def _by_delta_rs(path: Path) -> None:
    values = pa.table({"a": [1, 2]})
    write_deltalake(path, values)
    write_deltalake(path, values, mode="overwrite")
    table = DeltaTable(path)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert table.to_pyarrow_table().num_rows == 2


def _ledger_survives(path: Path, work: Callable[[Path], None]) -> None:
    store = open_files(f"{path}/{LEDGER}")
    store.write_text(NAME, "plan")
    for name in (NAME, "plans", ""):
        os.utime(path / "_deltajoin" / name, (1e9, 1e9))
    assert load_target(str(path)) is None
    work(path)
    assert store.read_text(NAME) == "plan"
    assert load_target(str(path)) is not None


def test_delta_rs_leaves_the_ledger_alone(tmp_path: Path) -> None:
    _ledger_survives(tmp_path / "t", _by_delta_rs)


def test_spark_leaves_the_ledger_alone(tmp_path: Path, spark: Any) -> None:
    def by_spark(path: Path) -> None:
        session = spark.newSession()
        session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        session.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
        for _ in range(2):
            session.range(3).write.format("delta").mode("overwrite").save(str(path))
        session.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
        assert session.read.format("delta").load(str(path)).count() == 3

    _ledger_survives(tmp_path / "t", by_spark)


def test_drafts_of_killed_writes_are_removed(tmp_path: Path) -> None:
    """Not those of a write beside this one, nor what is no draft."""
    folder = tmp_path / "plans"
    folder.mkdir()
    old = (".00000001.json.a.tmp", ".00000001.json.b.tmp", ".00000002.json.c.tmp")
    others = (".hidden", "x.tmp")
    for name in (*old, *others):
        (folder / name).write_text("")
        os.utime(folder / name, (1e9, 1e9))
    (folder / ".00000001.json.now.tmp").write_text("")
    LocalFiles(str(tmp_path)).write_text(NAME, "one")
    names = {file.name for file in folder.iterdir()}
    assert names == {"00000001.json", ".00000001.json.now.tmp", *others}
