"""A local Spark session with Delta, on a machine that may have neither Spark, jars nor Java set up.

Rule: what exists is used, what is missing is supplied from the Python environment, and nothing
outside it is written. Java is what `java.py` finds; the Delta jars are those fetched once into
`<sys.prefix>/share/deltajoin/jars`, else Spark resolves the package at each start. A caller stops
the session that it started; until then `SparkSession.builder.getOrCreate()` elsewhere in the
process (dbt-spark, for one) shares it. To hand a job to a spark-submit of this machine, take
`submit_conf()` and `submit_environment()`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltajoin.errors import DeltaJoinError
from deltajoin.runtime.class_archive import archive_at_exit, archive_option, class_archive
from deltajoin.runtime.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
_PACKAGES = {"spark.jars.packages": DELTA_PACKAGE}
LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
MOST_DRIVER_MEMORY_GB = 4


def local_session(
    app: str = "deltajoin", master: str = "local[*]", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Start, or join, the Spark session of this process; `conf` goes over the defaults.

    DELTAJOIN_JAVA_OPTIONS holds further options of the JVM: with `-XX:TieredStopAtLevel=1`, a short
    session on few cores takes half the time.
    Raises JAVA_MISSING when there is no Java runtime to start Spark with.
    """
    from pyspark.sql import SparkSession

    java_home()
    confs: dict[str, Any] = {**submit_conf(), **_local_conf(), **(conf or {})}
    return SparkSession.builder.appName(app).master(master).config(map=confs).getOrCreate()


def remote_session(url: str, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A new session on a Spark Connect server, such as `sc://host:15002`; it needs no Java here."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.remote(url).config(map=dict(conf or {})).create()


def submit_conf() -> dict[str, str]:
    """The settings with which a spark-submit from this machine can read and write Delta tables."""
    jars = delta_jars()
    source = {"spark.jars": ",".join(map(str, jars))} if jars else _PACKAGES
    catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    return {
        **source,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": catalog,
    }


def java_options() -> str:
    """What a short-lived JVM with Spark should start with: the archive, DELTAJOIN_JAVA_OPTIONS."""
    return f"{archive_option()} {os.environ.get('DELTAJOIN_JAVA_OPTIONS', '')}".strip()


def submit_environment() -> dict[str, str]:
    """This process's environment, with what the spark-submit of this Python's pyspark needs.

    The script finds neither its own Spark nor the right Python unless their folder leads PATH.
    """
    java_home()
    import pyspark

    spark = Path(pyspark.__file__).parent
    path = os.pathsep.join([str(spark / "bin"), os.environ.get("PATH", os.defpath)])
    python = sys.executable
    return {**os.environ, "PATH": path, "SPARK_HOME": str(spark), "PYSPARK_PYTHON": python}


def delta_jars() -> tuple[Path, ...]:
    """The fetched Delta jars, from the folder DELTAJOIN_JARS if that is set; empty if none are."""
    return tuple(sorted(_jar_folder().glob("*.jar")))


def fetch_jars() -> tuple[Path, ...]:
    """Let Spark resolve Delta once and keep the jars; those that Spark has itself are left out."""
    environment = submit_environment()
    own = {_artifact(jar) for jar in Path(environment["SPARK_HOME"], "jars").glob("*.jar")}
    folder = _jar_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        script = Path(scratch, "nothing.py")
        script.touch()
        options = _options({**_PACKAGES, "spark.jars.ivy": f"{scratch}/ivy"})
        output = _submit([*options, str(script)], environment)
        resolved = Path(scratch, "ivy", "jars")
        if not resolved.exists():
            raise DeltaJoinError(
                "JARS_UNAVAILABLE",
                f"Spark could not resolve {DELTA_PACKAGE}:\n{output}",
                remedy="Give the package registry, or a folder with the jars in DELTAJOIN_JARS.",
            )
        for jar in resolved.glob("*.jar"):
            if _artifact(jar) in own:
                jar.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(resolved, folder)
    return delta_jars()


def archive_classes() -> Path:
    """Make the archive of Spark's classes from which later sessions start (`class_archive.py`)."""
    archive = class_archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        made = Path(scratch, archive.name)
        conf = {**submit_conf(), **_local_conf(), "spark.master": "local[2]"}
        conf["spark.driver.extraJavaOptions"] = f"{LOGGING} {archive_at_exit(made)}"
        script = str(Path(__file__).with_name("class_archive.py"))
        output = _submit([*_options(conf), script], submit_environment())
        if not made.exists():
            remedy = "Sessions start without it, only slower; the Java found may be too old."
            raise DeltaJoinError("ARCHIVE_NOT_MADE", f"Java kept none:\n{output}", remedy=remedy)
        os.replace(made, archive)
    return archive


def _local_conf() -> dict[str, str]:
    """Defaults of a session on one machine: quiet, small, and unable to skip a missing file."""
    cores = os.cpu_count() or 1
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{_driver_memory_gb()}g",
        "spark.sql.shuffle.partitions": str(min(2 * cores, 16)),
        "spark.databricks.delta.snapshotPartitions": "2",
        # Each broadcast table takes a page at least, of 64 MB by default, until its plan is gone:
        # some runs of a dozen broadcasts fill the heap.
        "spark.buffer.pageSize": "2m",
        # A run makes some hundred classes, as many as are kept by default: the next one would make
        # and warm up all of them anew.
        "spark.sql.codegen.cache.maxEntries": "1000",
        "spark.sql.variable.substitute": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.driver.extraJavaOptions": f"{LOGGING} {java_options()}",
    }


def _driver_memory_gb() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return max(1, min(MOST_DRIVER_MEMORY_GB, machine // 4))


def _submit(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Let a spark-submit of this machine run to its end; the end of what it printed."""
    command = [str(Path(environment["SPARK_HOME"], "bin", "spark-submit")), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return done.stderr[-2000:]


def _options(conf: Mapping[str, str]) -> list[str]:
    return [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]


def _artifact(jar: Path) -> str:
    """A jar's artifact, without the group that Ivy puts before it and without its version.

    Example:
        >>> _artifact(Path("io.delta_delta-spark_4.2_2.13-4.4.0.jar"))
        'delta-spark_4.2_2.13'
        >>> _artifact(Path("zstd-jni-1.5.7-6.jar"))
        'zstd-jni'
    """
    name = re.sub(r"^[a-z0-9-]+(\.[a-z0-9-]+)+_", "", jar.name)
    return re.sub(r"-\d.*$", "", name)


def _jar_folder() -> Path:
    return Path(os.environ.get("DELTAJOIN_JARS") or Path(sys.prefix, "share", "deltajoin", "jars"))


def main(arguments: list[str]) -> int:
    """`fetch-jars`: the Delta jars, if not there yet; `archive-classes`: the archive, made anew."""
    if arguments == ["fetch-jars"]:
        _, artifact, version = DELTA_PACKAGE.split(":")
        jars = delta_jars()
        if not any(jar.name.endswith(f"{artifact}-{version}.jar") for jar in jars):
            jars = fetch_jars()
        print(f"          {len(jars)} jars in {_jar_folder()}; Java in {java_home()}")
    elif arguments == ["archive-classes"]:
        try:
            print(f"          {archive_classes()}")
        except DeltaJoinError as error:
            print(f"          {error}", file=sys.stderr)
    else:
        usage = "usage: python -m deltajoin.runtime.session fetch-jars|archive-classes"
        print(usage, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
