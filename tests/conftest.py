"""One Spark session for the whole run, and golden files that `make accept` rewrites."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIXTURES = Path(__file__).parent / "fixtures"

# Plans over a dozen rows are interpreted (every eighth random model is compiled, as are `make demo`
# and the benchmarks). In the processes that tests start, which are short, Java compiles quickly;
# in the session that all tests of a process share, it compiles what runs often once more, and well.
LONG_SESSION = (
    "-XX:+UseSerialGC"
    " -Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
)
SHORT_SESSION = f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m {LONG_SESSION}"
GIVEN = os.environ.setdefault("DELTAJOIN_JAVA_OPTIONS", SHORT_SESSION)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept", action="store_true", help="rewrite the golden files")
    parser.addoption("--cases", type=int, default=30, help="random cases of the oracle")
    parser.addoption("--seed", type=int, default=1, help="seed of the first random case")
    parser.addoption("--corpus-epochs", type=int, default=12, help="queries over an epoch; 0: all")
    parser.addoption("--s3", action="store_true", help="Spark on S3: 690 MB of jars, fetched once")
    parser.addoption("--thorough", action="store_true", help="long histories where short ones do")
    parser.addoption("--session", choices=("local", "cluster", "connect"), default="local")
    parser.addoption("--models", type=int, default=2, help="random models on real Delta tables")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spark on S3 is tested where it is asked for."""
    own = collection_path.parts[-2:] == ("spark", "test_object_store.py")
    return True if own and not config.getoption("--s3") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    if not config.getoption("--thorough"):
        later = {item for item in items if item.get_closest_marker("thorough")}
        sampled = defaultdict[Any, list[pytest.Item]](list)
        for item in items:
            if item.get_closest_marker("sampled"):
                sampled[item.nodeid.partition("[")[0]].append(item)
        for cases in sampled.values():
            later.update(set(cases) - set(cases[::10]))
        config.hook.pytest_deselected(items=list(later))
        items[:] = [item for item in items if item not in later]


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """The Spark session shared by all tests; a test that needs other settings uses newSession().

    By `--session`, one on a standalone cluster or on a Spark Connect server; few tests but the
    oracle's can do with these.
    """
    from deltajoin.runtime.session import local_session
    from examples.flights.connect_server import connect_server
    from tests.spark.cluster import CONF, standalone_cluster
    from tests.spark.connect_server import session_on

    kind = request.config.getoption("--session")
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse").as_uri(),
    }
    with ExitStack() as opened:
        with pytest.MonkeyPatch.context() as patch:
            if GIVEN == SHORT_SESSION:
                patch.setenv("DELTAJOIN_JAVA_OPTIONS", LONG_SESSION)
            folder = tmp_path_factory.mktemp(kind)
            if kind == "connect":
                server = opened.enter_context(connect_server(folder))
                session = opened.enter_context(session_on(server))
            else:
                master = "local[2]"
                if kind == "cluster":
                    master, conf = (
                        opened.enter_context(standalone_cluster(folder)),
                        {**conf, **CONF},
                    )
                session = local_session("deltajoin-tests", master, conf)
                opened.callback(session.stop)
        yield session


@pytest.fixture(scope="session")
def macros() -> SimpleNamespace:
    """The dbt macros that write join conditions, as jinja renders them."""
    import jinja2

    package = SimpleNamespace()
    text = (Path(__file__).parents[1] / "macros" / "joins.sql").read_text(encoding="utf-8")
    template = jinja2.Environment(autoescape=False).from_string(text)  # noqa: S701 - it is SQL
    vars(package).update(vars(template.make_module({"deltajoin": package})))
    return package


@pytest.fixture(autouse=True)
def _every_counter_told(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A counter that Spark tells nothing of costs a run a minute, and is in no row's way."""
    yield
    told = [record.getMessage() for record in caplog.get_records("call")]
    assert not [message for message in told if "told nothing of counter" in message]


@pytest.fixture
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether histories are to be long."""
    return bool(request.config.getoption("--thorough"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("plans/star.json", text)` compares text with that file of tests/fixtures."""

    def compare(name: str, text: str) -> None:
        file = FIXTURES / name
        if request.config.getoption("--accept"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        assert file.exists(), (
            f"no golden file tests/fixtures/{name}: run `make accept`, then read it"
        )
        assert text == file.read_text(encoding="utf-8"), "if this is meant, run `make accept`"

    return compare
