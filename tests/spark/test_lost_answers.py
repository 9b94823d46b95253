"""A commit that lands although its statement fails, a ledger that can't be written, and the error
that a job leaves for its submitter."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import deltajoin
from deltajoin.adapters.airflow.submit import left_behind
from deltajoin.catalog import files
from deltajoin.contract import SUBMISSION, failure_folder
from deltajoin.runtime import execute
from deltajoin.runtime.job import leaving_errors
from tests.spark import shop as shops
from tests.spark.shop import Shop, assert_right, at, never, open_shop, written


@pytest.fixture
def built(spark: Any, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Shop:
    return shops.built(spark, tmp_path_factory, tmp_path / "shop")


@pytest.fixture
def answers_lost(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every write fails once it is done; the names of the models whose writes did."""
    real, lost = execute.commit_marks, list[str]()

    @contextmanager
    def marks(spark: Any, application: str, *more: Any) -> Iterator[None]:
        with real(spark, application, *more):
            yield
        lost.append(application)
        raise RuntimeError("the connection was closed")

    monkeypatch.setattr(execute, "commit_marks", marks)
    return lost


@pytest.mark.parametrize("few", [0, 10_000])
def test_an_answer_is_lost(few: int, spark: Any, tmp_path: Path, answers_lost: list[str]) -> None:
    """Of a first build, a MERGE and an overwrite, compiled and interpreted."""
    session, shop = spark.newSession(), open_shop(tmp_path)
    session.conf.set("spark.deltajoin.fewRows", few)
    assert deltajoin.run(shop.model(), session).epoch == 1
    shop.append("orders", (100, 1, 5))
    record = deltajoin.run(shop.model(mode="incremental_strict"), session)
    assert (record.strategy, record.epoch, record.rows["inserted"]) == ("incremental", 2, 1)
    shop.delete("orders", "order_id = 3")
    assert deltajoin.run(shop.model(mode="full"), session).strategy == "full"
    assert len(answers_lost) == 3
    assert_right(shop, 3)


def test_a_write_that_fails_for_good_is_no_commit(
    built: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = written(built)
    built.append("orders", (100, 1, 5))

    @contextmanager
    def marks(*of: Any) -> Iterator[None]:
        raise RuntimeError("the connection was closed")
        yield

    monkeypatch.setattr(execute, "commit_marks", marks)
    with pytest.raises(deltajoin.DeltaJoinError, match="connection was closed") as caught:
        deltajoin.run(built.model(), spark)
    assert caught.value.code == "SPARK_FAILED"
    assert written(built) == kept


# a ledger without room ----------------------------------------------------------------------------


def no_room() -> pytest.MonkeyPatch:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch = pytest.MonkeyPatch()
    patch.setattr(files.os, "fsync", full)
    return patch


def test_no_room_for_the_plan(built: Shop) -> None:
    kept = written(built)
    built.append("orders", (100, 1, 5))
    patch = no_room()
    with pytest.raises(deltajoin.DeltaJoinError, match="No space left") as caught:
        deltajoin.run(built.model(), never)
    patch.undo()
    assert caught.value.code == "LEDGER_UNWRITABLE"
    assert str(caught.value.where).endswith("_deltajoin/plans/00000002.json")
    assert written(built) == kept


def test_no_room_for_the_record(built: Shop, spark: Any) -> None:
    """The epoch is committed: that is said, and the next run writes what is missing."""
    built.append("orders", (100, 1, 5))
    patches: list[pytest.MonkeyPatch] = []
    record = deltajoin.run(
        built.model(), spark, on_step=at("verified", lambda: patches.append(no_room()))
    )
    patches[0].undo()
    assert (record.strategy, record.epoch) == ("incremental", 2)
    assert "the next run writes its record" in record.warnings[-1]
    assert deltajoin.run(built.model(), never).strategy == "noop"
    assert_right(built, 2)


@pytest.mark.parametrize("exists", [True, False])
def test_a_job_leaves_its_error(exists: bool, spark: Any, tmp_path: Path) -> None:
    """To a submitter that has named the submission, and unless Spark is lost; the newest counts."""
    session, target = spark.newSession(), {"location": str(tmp_path / "50% é/t"), "exists": exists}
    folder = Path(failure_folder(str(target["location"]), exists))

    def names() -> list[str]:
        return [path.name for path in folder.glob("[!._]*")]

    plan: Any = SimpleNamespace(target=SimpleNamespace(**target))

    def fail(code: str) -> None:
        with pytest.raises(deltajoin.DeltaJoinError, match=code), leaving_errors(session, target):
            raise deltajoin.DeltaJoinError(code, "two rows; é", where="t", remedy="None.")

    fail("KEY_VIOLATED")
    session.conf.set(SUBMISSION, "first")
    fail("SPARK_LOST")
    assert not folder.exists()
    fail("WINDOW_TIES")
    session.conf.set(SUBMISSION, "second")
    fail("KEY_VIOLATED")
    assert len(names()) == 1
    assert left_behind(plan, "first") is None
    left = left_behind(plan, "second")
    assert left is not None
    assert (left.code, left.message, left.where) == ("KEY_VIOLATED", "two rows; é", "t")
    assert names() == []
    with leaving_errors(session, target):
        pass
    assert names() == []
