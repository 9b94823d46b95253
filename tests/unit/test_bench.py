"""The pieces of the TPC-H benchmark that need no Spark."""

from __future__ import annotations

import doctest
import json
import os
from pathlib import Path

import pytest

from examples.tpch import changes, plots, report
from examples.tpch.changes import Batch, merges, order_key, parse_batch
from examples.tpch.data import copy_tables
from examples.tpch.report import Case, markdown

COLUMNS = {
    "orders": ["o_orderkey", "o_totalprice"],
    "lineitem": ["l_orderkey", "l_linenumber", "l_quantity"],
    "customer": ["c_custkey", "c_acctbal"],
}


@pytest.mark.parametrize("module", [changes, plots, report])
def test_examples_in_docstrings(module: object) -> None:
    assert not doctest.testmod(module).failed  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["orders", "lineitem:0.1:clustered", "orders:0:clustered", "orders:0.1:random"]
)
def test_a_batch_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text.split(":")[0]):
        parse_batch(text)


def test_a_batch_of_orders_changes_their_lines_over_the_same_range() -> None:
    found = merges(Batch("orders", 0.01, "clustered"), 1000, 0, COLUMNS)
    assert list(found) == ["lineitem", "orders"]
    low, high = order_key(0), order_key(9)
    assert f"l_orderkey BETWEEN {low} AND {high}" in found["lineitem"]
    assert f"o_orderkey BETWEEN {low} AND {high}" in found["orders"]
    assert f"t.o_orderkey BETWEEN {low} AND {high + 8}" in found["orders"]


def test_a_dimension_loses_no_row() -> None:
    (merge,) = merges(Batch("customer", 0.01, "scattered"), 1000, 0, COLUMNS).values()
    assert "false AS removed" in merge
    assert "BETWEEN" not in merge


def test_a_table_of_medians_and_ratios() -> None:
    rounds = {
        "incremental": [{"seconds": 1.0}, {"seconds": 2.0}, {"seconds": 9.0}],
        "full": [{"seconds": 30.0}],
        "hand": [{"seconds": 1.0}],
    }
    case = Case("wide", "orders:0.001:clustered", rounds, {"full": 0, "hand": 1200})
    assert markdown([case]).splitlines() == [
        "| model | batch | incremental | full | hand |",
        "| --- | --- | --- | --- | --- |",
        "| wide | orders:0.001:clustered | 2.0 s (1.0-9.0) | 30.0 s, **15.0x** "
        "| 1.0 s, **0.5x**, 1,200 rows wrong |",
    ]


def test_a_copy_links_data_and_copies_logs(tmp_path: Path) -> None:
    source = tmp_path / "a"
    (source / "t" / "_delta_log").mkdir(parents=True)
    files = ["t/part.parquet", "t/_delta_log/1.checkpoint.parquet", "t/_delta_log/0.json"]
    for name in files:
        (source / name).write_text(name)
    copy_tables(source, tmp_path / "b")
    same = [os.path.samefile(source / name, tmp_path / "b" / name) for name in files]
    assert same == [True, False, False]


def test_plots_of_two_scales(tmp_path: Path) -> None:
    """The same figures give the same files; a case that one run alone has is not drawn by scale."""
    files = []
    for scale in (1, 10):
        rounds = {
            "full": [{"seconds": 30.0 * scale}],
            "incremental": [{"seconds": 6.0 + scale, "phases": {"changes": 1.0, "merge": 4.0}}],
        }
        batches = ["orders:0.001:clustered", "orders:0.01:scattered", f"orders:0.{scale}:clustered"]
        cases = [{"model": "wide", "batch": batch, "rounds": rounds} for batch in batches]
        file = tmp_path / f"{scale}.json"
        file.write_text(json.dumps({"scale": scale, "cases": cases}), "utf-8")
        files.append(file)
    drawn = plots.draw(files, tmp_path / "a")
    names = ["time-by-change.svg", "phases.svg", "time-by-scale.svg"]
    assert [file.name for file in drawn] == names
    texts = [file.read_text("utf-8") for file in drawn]
    assert all(text.lstrip().startswith("<?xml") for text in texts)
    again = [file.read_text("utf-8") for file in plots.draw(files, tmp_path / "b")]
    assert texts == again
    assert "wide, orders:0.001:clustered" in texts[2]
    assert "orders:0.1:clustered" not in texts[2]
    assert len(plots.draw(files[:1], tmp_path / "c")) == 2
