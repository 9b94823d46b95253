"""Deliberate defects in what decides, commits and proves an epoch: each is caught by fast tests.

    python -m tests.mutation [words of a name]

A copy of the package gets one wrong line; the named tests must then fail. They need no Spark,
but for those of the commit path, which are a few of `tests/spark`.
The defects of joins, groups and windows are in `tests/property`, those of the SQL's meaning in
`tests/spark/test_slips.py`, which `make test` runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


@dataclass(frozen=True)
class Defect:
    """A text of a module, what stands there instead, and the tests that find it: of `tests/unit` by
    what follows `test_`, others by their path below `tests`, single ones behind `::`."""

    name: str
    module: str
    right: str
    wrong: str
    tests: str

    def apply(self, package: Path) -> None:
        """Make the package wrong; it has the text exactly once."""
        file = package / self.module
        text = file.read_text(encoding="utf-8")
        if text.count(self.right) != 1:
            raise ValueError(f"{self.module} has {text.count(self.right)} times: {self.right}")
        file.write_text(text.replace(self.right, self.wrong), encoding="utf-8")


def _of(module: str, tests: str, *defects: tuple[str, str, str]) -> tuple[Defect, ...]:
    return tuple(Defect(name, module, right, wrong, tests) for name, right, wrong in defects)


DEFECTS = (
    *_of(
        "delta/frontier.py",
        "frontier",
        ("two versions of a table", "known.version != pin.version", "known.version < pin.version"),
        ("a closed frontier takes a table", "if self._closed:", "if False:"),
        ("another version than the pinned", " or pin.version != table.version", ""),
        ("a recreated table", "pin.table_id not in (None, table.table_id)", "False"),
        ("a frontier that is behind", "table.version >= consumed", "True"),
        ("version numbers below zero", " or version < 0", ""),
    ),
    *_of(
        "catalog/changes.py",
        "catalog_changes",
        ("the first commit left out", "(consumed.version + 1,", "(consumed.version + 2,"),
        ("a table rolled back", "table.version < consumed.version and same_id", "False"),
        ("another commit of the number", "if consumed.commit and ", "if False and "),
        ("an id of before", " or past.table_id != consumed.table_id", ""),
        ("a retyped column", "in used and kind != column.type", "in used and kind is None"),
        ("commits without data", "enumerate(commits) if c.data_change)", "enumerate(commits))"),
        ("the feed was off", "if not all(feed_on)", "if not any(feed_on)"),
        ("a log that ends", "if not log_reaches(files, previous)", "if False"),
        ("some inserts", "all(c.insert_only", "any(c.insert_only"),
        ("files of the feed gone", "None if lost is None else (", "None if True else ("),
        ("a log file is gone", "if commit is None:", "if False:"),
        ("a bag that was none", "if len({COUNT in state", "if 0 and len({COUNT in state"),
        ("CHAR that was none", "if padded[0] != padded[-1]:", "if False:"),
    ),
    *_of(
        "catalog/difference.py",
        "catalog_changes",
        ("files named again", "and own and olds", "and olds"),
        ("a folder without a name", 'v.get(c) == "" for', "False for"),
        ("files that Spark passes over", "any(is_misread(path) for side", "any(0 for side"),
    ),
    *_of(
        "delta/history.py",
        "history",
        ("a foreign write", "elif commit.data_change and foreign is None", "elif False"),
        ("another model's target", "if owner != model:", "if False:"),
        ("a newer format", "if found > FORMAT:", "if found > FORMAT + 1:"),
        ("a table that is not ours", "if owner is None:", "if owner == '':"),
        ("the epoch's number", 'LastEpoch(last, int(last["epoch"]))', "LastEpoch(last, 1)"),
    ),
    *_of(
        "delta/strategy.py",
        "plan kept rebuild reach catalog_static noop",
        ("another definition", "if now.changed_meaning:", "if False:"),
        ("strict", 'now.mode == "incremental_strict" and obstacles', "False"),
        ("a large share", "now.share > LARGEST_SHARE", "now.share > 2"),
        ("a source that can't tell", "if now.sources:", "if False:"),
        ("full on request", 'if now.mode == "full":', "if False:"),
        ("what past runs took", "now.predicted.favour_rebuild", "now.predicted is None"),
    ),
    *_of(
        "delta/history.py",
        "seconds",
        ("another definition's runs", 'if record.get("fingerprint") == mark', ""),
    ),
    *_of(
        "delta/seconds.py",
        "seconds",
        ("comparisons as runs", ' and r["mode"] != "shadow"', ""),
        ("a rebuild of other sizes", " * (all_rows / then if then else 1)", ""),
        ("past runs forgotten", "weights += weight", "total = 0.0"),
        ("a comparison for a rebuild", "next(whole, rebuilds[0])", "rebuilds[0]"),
        ("a query computed twice", 'record["phases"].get("query", 0.0) / 2', "0"),
    ),
    *_of(
        "delta/rebuild.py",
        "rebuild",
        ("a long comparison", "longer > LONGEST", "False"),
        ("comparisons of other sizes", " * rows_read(record) / rows_read(whole[0][1])", ""),
        ("stamps of rows that stay", "whole and not stamped", "whole"),
        ("a found share", "found > LARGEST_SHARE", "False"),
    ),
    *_of(
        "delta/clock.py",
        "stamps",
        ("a day that is over", "if moved else ()", "if False else ()"),
    ),
    *_of(
        "sql/clock.py",
        "stamps",
        ("a stamp held for a day", "if id(call) in left:", "if False:"),
        ("a column of the clock's name", "if len(node.parts) == 1 else", "if True else"),
    ),
    *_of(
        "noop.py",
        "noop object_store",
        ("a clock that moves", ' or "clock" in last', ""),
        ("another text", 'last.get("model_hash") != model_hash(model)', "False"),
        ("another table", '!= (entry["id"], ', "!= (logs.newest(name)[0], "),
        ("another commit", ', entry.get("commit"))', ", logs.newest(name)[2])"),
    ),
    *_of(
        "audit/verify.py",
        "audit_chain",
        ("a broken chain", "follows != link(before)", "follows is None"),
        ("a plan's hash", 'digest(content) == plan.get("plan_hash")', 'plan["plan_hash"]'),
        ("records of the future", "if 0 < newest < epoch", "if False"),
        ("the newest epoch by the log alone", "_transaction(state), 0)", "0, 0)"),
        ("an epoch left out", "if epoch < newest and epoch + 1 not in committed", "if False"),
        ("any lost plan", ' and record.get("plan_lost"):', ":"),
        ("an epoch twice", "if epoch in committed:", "if False:"),
        ("fields that differ", "    if not differing:\n", "    if True:\n"),
    ),
    *_of(
        "audit/record.py",
        "audit_chain",
        ("a link of nothing", "if v and name not in UNSEALED", "if v and name in UNSEALED"),
    ),
    *_of(
        "audit/ledger.py",
        "audit_chain cli_audit",
        ("lost files stay lost", 'if self.audit(int(found[1]["epoch"])) is None)', "if False)"),
        ("one lost plan of many", "without_plans and self.plan", "self.plan"),
        ("a text that is no JSON", "except ValueError:", "except KeyError:"),
    ),
    *_of(
        "contract.py",
        "history cli_audit audit_chain contract",
        ("a commit of others", ' and "epoch" in record', ""),
        ("metadata that is no JSON", "except (ValueError, AttributeError, ", "except ("),
        ("a packed record that is cut", ", zlib.error)", ")"),
        ("a packed record", "and _PACKED in record", "and False"),
    ),
    *_of(
        "delta/sources.py",
        "sources",
        ("columns of the last epoch", '!= schema_of(columns)', "== schema_of(columns)"),
        ("columns that the log lost", "None if past is None else past.columns", "past and ()"),
    ),
    *_of(
        "api.py",
        "spark/test_layout::test_clusters_and_properties",
        ("a repair without work", "_repair(model, record, logs.state, sessions)", "pass"),
    ),
    *_of(
        "names.py",
        "bad_sql property/test_hostile",
        ("substitution", 'if "${" in text:', 'if "$${" in text:'),
        ("NUL", 'if "\\x00" in text:', "if False:"),
        ("names in backticks", '"`" + name.replace("`", "``") + "`"', '"`" + name + "`"'),
    ),
    *_of(
        "runtime/execute.py",
        "spark/test_foreign_writes::test_a_delete_just_before_the_write[groups]",
        ("a look before the write", "        if not replaced:\n", "        if False:\n"),
    ),
    *_of(
        "runtime/execute.py",
        "spark/test_foreign_writes::test_a_delete_in_the_moment_of_the_write",
        (
            "a writer in the moment of the write",
            "refuse_changed(commits[: commits.index(commit)], epoch, place)",
            "pass",
        ),
    ),
    *_of(
        "runtime/commits.py",
        "spark/test_foreign_writes::test_a_delete_just_before_the_write[groups]",
        (
            "the version that an epoch stands on",
            "range(version + 1 + len(found), version + 2",
            "range(version + 2 + len(found), version + 3",
        ),
    ),
    *_of(
        "runtime/commits.py",
        "spark/test_foreign_writes::test_what_changes_no_row_does_not_count",
        ("commits that change no row", "        if commit.data_change:\n", "        if True:\n"),
    ),
    *_of(
        "runtime/execute.py",
        "spark/test_lost_answers::test_an_answer_is_lost[0]",
        (
            "an answer that is lost",
            'any(c.record and c.record.get("run_id") == self.run_id for c in commits)',
            "False",
        ),
    ),
    *_of(
        "runtime/execute.py",
        "spark/test_bad_input::test_a_key_violated_at_the_first_run[customers-row0]",
        ("a declared key", 'if self.program["key_check"] is None:', "if True:"),
    ),
    *_of(
        "runtime/own_session.py",
        "spark/test_foreign_writes::test_another_run_in_the_moment_of_the_write",
        ("the epoch's transaction", "(own, dict(marks))", "(own, {COMMIT_MARKS[2]: metadata})"),
    ),
    *_of(
        "runtime/port.py",
        "spark/test_session::test_a_session_of_a_run_has_what_the_callers_has",
        ("a mark of the caller's", " and key not in _NOT_CARRIED", ""),
    ),
    *_of(
        "runtime/read.py",
        "spark/test_foreign_writes::test_a_file_that_changes_while_it_is_read",
        ("files that have changed", 'if found != at["version"]:', "if found is None:"),
    ),
    *_of(
        "runtime/target.py",
        "spark/test_modes::test_catalog_names",
        ("a bag's copies", "sequence(1, CAST(", "sequence(1, 0 * CAST("),
    ),
    *_of(
        "delta/plan.py",
        "plan history",
        ("the version consumed", '"version": s.version,', '"version": s.at("previous"),'),
    ),
    *_of(
        "planner/conflicts.py",
        "property/test_reorder::test_swaps_are_allowed_exactly_where_rows_stay_equal",
        ("joins behind outer ones", "        return b.rejects(middle)\n", "        return True\n"),
    ),
    *_of(
        "planner/push_down.py",
        "hypergraph",
        ("a filter over a full join", 'item.kind in ("left", "semi", "anti") else', "True else"),
    ),
    *_of(
        "emit/stream.py",
        "lookup_paths",
        ("what a path sends", "min(self.spare, most / max(stream.rows, 1.0))", "self.spare"),
    ),
    *_of(
        "emit/kept_groups.py",
        "property/test_matrix::test_every_change_of_matches[grouped]",
        ("a group of NULL", 'same(column(name, "t"), value)', 'column(name, "t").eq(value)'),
    ),
    *_of(
        "emit/change.py",
        "property/test_oracle::test_a_case_that_failed_once",
        ("an update's new row", '.when(string("update_postimage"), number(1))', ""),
    ),
    *_of(
        "storage.py",
        "object_store",
        ("secrets in exceptions", "part = part.replace(secret, HIDDEN)", "pass"),
        ("options stay in force", "_in_force.reset(before)", "pass"),
    ),
    *_of(
        "delta/identity.py",
        "identity",
        ("matches told apart by nothing", "column), level.known):", "column), {name}):"),
        ("matches told apart by all", "column), level.known):", "column), set()):"),
        ("a match of another type", "and self._type(pair[0]) == self._type(pair[1])", "and True"),
    ),
    *_of(
        "runtime/narrowing.py",
        "bounded_reads",
        ("days tell more than orders", "return len(values) / possible", "return 1 / possible"),
        ("a file's last value", "or low <= greatest", "or low < greatest"),
        ("a file's first value", "or least <= high", "or least < high"),
        ("a file with NULLs", "or not bound and self.nulls and nulls", ""),
        ("files from a value on", 'bound == "from" or least', 'least'),
        ("files up to a value", 'bound == "to" or low', 'low'),
    ),
    *_of(
        "delta/neighbours.py",
        "windows",
        ("both ends closed", '"=" not in (less[1:] and more[1:])', "True"),
        ("values of other types", "kind and kind_of(value, asked.type_of) == kind", "kind"),
        ("another value's order", "at is not None and at == by", "at is not None"),
        ("both as near", 'and "<" in to_next | to_last', ""),
        ("the nearest of another value", "if between and", "if"),
        ("the nearest beyond", 'if how == ">"):', "):"),
        ("the order turned", 'if first.args.get("desc") or', "if"),
        ("a value that is NULL", "if not last or mine.name == self.beside:", "if True:"),
        ("two values", "and text(value) == text(other)", "and True"),
    ),
    *_of(
        "sql/bounds.py",
        "asof",
        ("two bounds", "return self.value == found", "return True"),
        ("moments a day apart", "int(size) < _IN_A_DAY.get(unit, 0)", "True"),
        ("moments of other types", "self._kind in _ORDERED or self._is_alike(value)", "True"),
        ("differences of moments", 'self._kind in ("date", "timestamp_ntz")', "True"),
    ),
    *_of(
        "delta/asof.py",
        "asof",
        ("rows without a key", "if row_key(found, known.keys, known.types) else", "if 1 else"),
        ("another than the first", 'sides == [number, "2"]', "sides[0] == number"),
        ("a window read elsewhere", "name == part.name for node in others", "0 for node in []"),
        ("groups of other rows, too", "if not told or name in fixed", "if name in fixed"),
        ("rows of several", "bounds if Fixed(graph, keys, types, row).is_row else None", "bounds"),
        ("a filter of candidates", "fixed | inner and p.kind", "fixed | {name} and p.kind"),
    ),
    *_of(
        "sql/nearest.py",
        "asof",
        ("closed at both ends", "kinds[self.last, strict]", "kinds[self.last, True]"),
        ("ties the other way", "text(_turned(tie) if self.last else tie)", "text(tie)"),
        ("a missing row's values", "if is_null_without(value, frozenset({at.table})):", "if True:"),
        ("a table without such a key", "not key or not order.issuperset(key)", "not key"),
        ("other aggregates", "if name not in _LAST | _FIRST or len", "if len"),
        ("more than one row", 'and text(limit.expression) == "1"', ""),
        ("an alias in ORDER BY", "if not given.isdisjoint(bare):", "if False:"),
        ("names taken for nothing", "binder.names.copy()", "binder.names"),
    ),
    *_of(
        "delta/ties.py",
        "windows",
        ("a table that nothing fixes", "self.fixed.issuperset(shown)", "bool(self.fixed)"),
        ("equal in other types", "kind == self._type_of(edge.right) and ", ""),
        ("-0.0 beside 0.0 in an order", "(*names, *(f", "(*names, *(f\"0\" or f"),
        ("any key of the rows", "return bool(identified) or", "return True or"),
    ),
    *_of(
        "sql/windows.py",
        "windows",
        ("numbers held against columns", " and not beside.find(exp.Column, exp.Query)", ""),
        ("numbers beside a neighbour", "if any(text(bare_call(w", "if all(text(bare_call(w"),
    ),
    *_of(
        "model.py",
        "bad_sql",
        ("a password in a location", "if _WITH_PASSWORD.match(place):", "if False:"),
    ),
    *_of(
        "delta/key_order.py",
        "key_order",
        ("a declared layout", "if layout.partition_by or layout.clustered_by:", "if False:"),
        ("one moved table", "for each in rows.values()) < 2", "for each in rows.values()) < 1"),
        ("few values", "order: len(order.bounds)", "order: -len(order.bounds)"),
    ),
    *_of(
        "sql/scalars.py",
        "correlated",
        ("a pair that is NULL", "is_negated(node) and len(members_of(node)) > 1", "False"),
        ("NULL that tells", "(exp.Where, exp.Having, exp.Qualify, exp.Join)", "exp.Expr"),
        ("NOT of more than IN", "and condition.unnest() is node", ""),
        ("NULL by an equality", "exp.Is if isinstance(member, exp.Null) else", ""),
        ("EXISTS of no row", "and int(count.this) > 0:", "and int(count.this) >= 0:"),
        ("an aggregate makes a row", "return all(isinstance(output, _SHOWN)", "return all(True"),
        ("IN of as many columns as there are", "len(shown) != len(members_of(node)) or ", ""),
        ("the first of several by place", "isinstance(part.this, exp.Literal)", "False"),
        ("a first row by what is given out", "return not given_out and not", "return not"),
    ),
    *_of(
        "sql/from_clause.py",
        "correlated windows",
        ("a total that may be missed", 'of_all = kind == "inner" and', "of_all ="),
        ("a generator below other joins, correlated", " or outer is not None", ""),
        ("a generator below other joins, over USING", "scope.merged or outer", "outer"),
        ("a comma before a generator", "block.crossed = any(", "block.crossed = not any("),
        ("stars of one table", "any(q[-1] in tables for q in item.qualifiers)", "False"),
    ),
    *_of(
        "sql/spans.py",
        "spans",
        ("NOT of what was exchanged", "exp.Not) and not _has", "exp.Not) and False and _has"),
    ),
    *_of(
        "sql/generators.py",
        "windows",
        ("generators in their order", "views = [view, *views]", "views += [view]"),
        ("LATERAL by names", " or named or", " or"),
        ("LEFT JOIN LATERAL", '"outer", kind == "left"', '"outer", False'),
        ("LATERAL under a condition", " or on not in (None, exp.true())", ""),
        ("RIGHT JOIN LATERAL", 'kind not in ("inner", "left") or ', ""),
        ("LEFT JOIN LATERAL without ON", 'if kind == "left" and (on', "if False and (on"),
    ),
    *_of(
        "sql/correlated.py",
        "correlated",
        ("a first row by other values", ' or uncorrelated.args.get("qualify")', ""),
        ("no equality", "by_equality = first or is_", "by_equality = is_"),
    ),
)  # fmt: skip


def _path(name: str) -> str:
    """Where pytest finds tests.

    Example:
        >>> _path("frontier"), _path("spark/test_races::test_a")
        ('tests/unit/test_frontier.py', 'tests/spark/test_races.py::test_a')
    """
    file, colons, test = name.partition("::")
    return f"tests/{file if '/' in file else f'unit/test_{file}'}.py{colons}{test}"


def is_caught(defect: Defect, folder: Path) -> bool:
    """Whether the tests fail over a copy of the package that has the defect."""
    package = folder / "deltajoin"
    shutil.copytree(
        REPOSITORY / "plugin/deltajoin", package, ignore=shutil.ignore_patterns("*.pyc")
    )
    defect.apply(package)
    words = [
        "-q",
        "-x",
        "-m",
        "spark" if "spark/" in defect.tests else "not spark",
        "-p",
        "no:cacheprovider",
        "-o",
        f"pythonpath={folder} .",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *map(_path, defect.tests.split())],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout.decode()[-2000:])
    return done.returncode == 1


def main(wanted: str) -> int:
    """Print each defect with what became of it; 1 if one was not caught."""
    defects = [defect for defect in DEFECTS if wanted in defect.name]
    lived = 0
    for defect in defects:
        with tempfile.TemporaryDirectory() as folder:
            caught = is_caught(defect, Path(folder))
        lived += not caught
        print(f"{'caught' if caught else 'LIVES '}  {defect.module}: {defect.name}", flush=True)
    print(f"{len(defects) - lived} of {len(defects)} defects caught")
    return 1 if lived else 0


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
