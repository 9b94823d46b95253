"""One run inside Spark: read the changes, evaluate, net, the one commit, verify.

    full         key check -> comparison with the user's own text -> one overwrite, or the rows that
                 differ -> one MERGE
    incremental  changes -> derived sources -> union of live paths -> net and fold -> one MERGE
    shadow       as incremental; before the MERGE its outcome is compared with the whole query

The commit carries model and epoch as Delta's transaction id, so a second commit of the epoch can't
happen, and the whole record as its metadata. Delta skips a repeated transaction silently: what was
committed since the plan decides whose the epoch is, and whether it stands on the rows of its plan.

Caller: gives a job (`emit.job.describe_job`) and a session; gets the record of the commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltajoin.contract import metadata_of
from deltajoin.errors import DeltaJoinError
from deltajoin.runtime import target as targets
from deltajoin.runtime.commits import commits_since, last_commit, overtaken, refuse_changed
from deltajoin.runtime.derived import derive
from deltajoin.runtime.difference import counted_columns, counts_of, find_difference, why_overwrite
from deltajoin.runtime.evidence import Proof, by_own_text, hold_against, own_form
from deltajoin.runtime.failures import explained, undoing
from deltajoin.runtime.lookup import Lookups, more_than_sent, start_lookups
from deltajoin.runtime.narrowing import Narrowing
from deltajoin.runtime.own_session import (
    commit_marks,
    for_few_rows,
    for_target,
    may_compare_rows,
    may_interpret,
    own_session,
    without_broadcasts,
    without_hints,
    without_repartition,
)
from deltajoin.runtime.port import port_of
from deltajoin.runtime.read import (
    materialise_changes,
    materialised,
    open_scans,
    open_statements,
    refuse_changed_files,
)
from deltajoin.runtime.record import record_of, surprises
from deltajoin.runtime.row_hash import with_row_hash
from deltajoin.runtime.settings import check_reading, drift, read_settings
from deltajoin.runtime.shadow import compare, nothing_to_write
from deltajoin.runtime.stopwatch import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OnStep = Callable[[str, dict[str, Any]], None]
#: How often a commit is tried that OPTIMIZE or the like has come before.
_TRIES = 3


def execute(
    spark: SparkSession,
    job: dict[str, Any],
    on_step: OnStep | None = None,
    watch: Stopwatch | None = None,
) -> dict[str, Any]:
    """Run a plan and commit its epoch.

    Args:
        watch: has the phases before this one, and gets those of the run.

    Returns:
        {"record": what the commit carries, "version": the target's, "location": its folder}.

    Raises:
        DeltaJoinError: KEY_VIOLATED, TABLE_REPLACED, TARGET_DRIFT, TARGET_CHANGED, SHADOW_MISMATCH,
            CONCURRENT_RUN, SOURCE_FILES_MISSING, EVALUATION_FAILED, SUM_OVERFLOW, SPARK_ANALYSIS,
            SPARK_FAILED, SPARK_LOST. Nothing is committed then, but where the target was changed in
            the very moment of the write, or Spark was lost behind it; its next plan knows that.
    """
    run = _Run(spark, job, on_step or (lambda name, info: None), watch or Stopwatch())
    with (
        undoing(lambda: port_of(run.spark).release(run.spark)),
        explained(f"run of {run.plan['model']}", of_spark_alone=True),
    ):
        return run.execute()


#: What a run ends with where the target's rows are others than it planned for, by whomever.
_OF_OTHER_ROWS = ("TARGET_DRIFT", "SHADOW_MISMATCH")


class _Run:
    def __init__(
        self, spark: SparkSession, job: dict[str, Any], on_step: OnStep, watch: Stopwatch
    ) -> None:
        self.watch = watch
        self.plan: dict[str, Any] = job["plan"]
        self.program: dict[str, Any] = job["program"]
        self.target: dict[str, Any] = dict(self.plan["target"])
        self.on_step = on_step
        self.started_at = datetime.now(UTC).isoformat()
        self.run_id = uuid.uuid4().hex
        #: The versions of the target that this run stands on, and that it wrote.
        self.previous: int = self.target.get("version", -1)
        self.committed: int | None = None
        self.caller = spark
        self.interpreted = False
        self.proof: Proof | None = None
        self.warnings: list[str] = []
        self.derived: dict[str, dict[str, Any]] = {}
        #: What the record says besides: sketches, how a rebuild was written, a comparison.
        self.noted: dict[str, Any] = {"sketches": self.plan.get("sketches")}
        check_reading(spark, self.program.get("syntax", {}))
        parsed = self.plan["graph"] is not None
        self.spark = own_session(spark, self.plan["settings"], parsed)
        self.narrowing = Narrowing(self.spark, [])

    def execute(self) -> dict[str, Any]:
        with undoing(self._release_proof):
            refuse_changed_files(self.plan)
            if self.target["exists"]:
                targets.alter(self.spark, self.target)
            self._write()
            targets.show(self.spark, self.target, self.plan["strategy"] == "full")
        self.on_step("after_merge", {})
        self.watch.begin("verification")
        commit = self._verify()
        self.on_step("verified", {"version": commit["version"]})
        return commit

    def _release_proof(self) -> None:
        if self.proof is not None:
            self.proof.rows.unpersist()

    def _write(self) -> None:
        """Commit the epoch; once more without broadcasts if the driver had no room for one."""
        try:
            self._write_as_planned()
        except DeltaJoinError as error:
            if error.code in _OF_OTHER_ROWS:
                self._check_target(replaced=False)
            if error.code != "BROADCAST_TOO_LARGE":
                raise
            self.warnings.append(f"{error.message} ({error.where}); run again without broadcasts")
            without_broadcasts(self.spark)
            self._write_as_planned()

    def _write_as_planned(self) -> None:
        """Over few rows interpreted, unless that fails.

        Interpreted, Spark may evaluate an expression for rows that a filter takes out above it; and
        nothing is committed by what fails, or only by what Delta then knows to be this epoch.
        """
        write = self._rebuild if self.plan["strategy"] == "full" else self._merge
        if may_interpret(self.caller, self.plan) and not self._compares_many():
            self.interpreted = True
            try:
                with for_few_rows(self.spark):
                    return write()
            except DeltaJoinError as error:
                if error.code not in ("SPARK_FAILED", "EVALUATION_FAILED"):
                    raise
            self.interpreted = False
        write()

    def _compares_many(self) -> bool:
        """Whether few rows are compared with one another so often that it pays to compile."""
        full = self.plan["full_query"] if self.plan["strategy"] == "full" else None
        return any("compared" in arm for arm in (full, *full.get("further", ()))) if full else False

    # full -------------------------------------------------------------------------------------

    def _rebuild(self) -> None:
        self.watch.begin("query", f"of {self.plan['model']}: {self.plan['reason']}")
        open_scans(self.spark, self.program["scans"])
        self._check_keys()
        self.noted["sketches"] = self._distinct_values()
        rows = with_row_hash(targets.without_char(self._queried()), self.target)
        if not self.target["columns"]:
            self.target["columns"] = list(rows.columns)
        if not self.target["exists"]:
            self._create(rows)
        if self._is_by_difference(rows):
            with explained("comparison with the target"):
                counts, self.noted["rebuilt_rows"] = find_difference(
                    self.spark, self.program["fold"], self.target, rows
                )
            self.on_step("changes_materialised", {})
            return self._commit_merge(counts, None)
        self.on_step("changes_materialised", {})
        layout = self.target.get("layout", {})
        rows = targets.in_order(rows, self.plan["rebuild"].get("order"), self.target["key"])
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer = writer.partitionBy(*layout.get("partition_by", ()))
        self._commit(lambda: writer.save(self.target["location"]), {}, None)
        with explained(f"layout of {self.target['place']}"):
            targets.cluster(self.spark, targets.by_location(self.target["location"]), layout)

    def _is_by_difference(self, rows: DataFrame) -> bool:
        """True where the plan says so and the rows are still such as the target holds."""
        rebuild = self.plan["rebuild"]
        if self.proof is not None and "differs" in self.proof.report:
            rebuild = {"written": "overwrite", "because": self.proof.report["differs"]}
        if rebuild["written"] == "difference":
            because = why_overwrite(rows, targets.read_stored(self.spark, self.target))
            if self.target["kind"] != self.plan["target"]["kind"]:
                because = "its rows are those of the query's own text"
            rebuild = {"written": "overwrite" if because else "difference", "because": because}
        self.noted |= {"written": rebuild["written"], "written_because": rebuild["because"]}
        return bool(rebuild["written"] == "difference")

    def _queried(self) -> DataFrame:
        """The rows to write: those of our form of the query if they are the user's own text's."""
        with explained(f"query of {self.plan['model']}"):
            if "evidence" not in self.program:
                rows = own_form(self.spark, self.program)
                _ = rows.schema  # Spark Connect analyses no sooner
                return rows
            self._release_proof()  # of a try before
            few = may_compare_rows(self.caller, self.plan["frontier"])
            final = not self.interpreted
            self.proof = hold_against(self.spark, self.program, self.target, few, final)
        if "differs" in self.proof.report:
            self.target = by_own_text(self.target, self.plan["mode"], self.proof)
        return self.proof.rows

    def _create(self, rows: DataFrame) -> None:
        targets.create_target(self.spark, self.target, rows, self.plan["model"])
        if self.target["name_parts"]:
            name = targets.backing_name(self.target)
            self.target["location"] = targets.locate(self.spark, name)
        self.target["exists"] = True
        self.on_step("target_created", {"location": self.target["location"]})

    def _check_keys(self) -> None:
        if self.program["key_check"] is None:
            return
        with explained("check of the declared keys"):
            found = self.spark.sql(self.program["key_check"]).collect()
        if found:
            names = ", ".join(sorted(row["source"] for row in found))
            raise DeltaJoinError(
                "KEY_VIOLATED",
                f"the declared key is not unique in: {names}",
                where=names,
                remedy="Remove the duplicates, correct the key, or declare no key.",
            )

    def _distinct_values(self) -> dict[str, dict[str, Any]]:
        """About how many distinct values each column has that joins and filters speak of."""
        if self.program.get("sketch") is None:
            return {}
        with explained("distinct values of the sources"):
            found = self.spark.sql(self.program["sketch"]).collect()
        return {row["source"]: {"rows": row["rows"], "columns": row["columns"]} for row in found}

    # incremental ------------------------------------------------------------------------------

    def _merge(self) -> None:
        feeds = self.program["feeds"]
        versions = ", ".join(f"{f['source']} {f['first']}..{f['last']}" for f in feeds)
        self.watch.begin("changes", f"of {versions}")
        self.narrowing = Narrowing(self.spark, self.program.get("narrowed", []))
        open_scans(self.spark, self.program["scans"])
        if self.program["touched"]:
            stored = targets.read_stored(self.spark, self.target)
            stored.createOrReplaceTempView("target_stored")
        change_rows = materialise_changes(self.spark, feeds)
        self.narrowing.hold(change_rows)
        self._refuse_to_send(change_rows)
        self.derived = derive(
            self.spark, self.program.get("derived", []), change_rows, self.narrowing.hold
        )
        self._refuse_to_send(change_rows)
        self.on_step("changes_materialised", {"rows": change_rows})
        paths = "; ".join(path["text"] for path in self.plan["paths"])
        self.watch.begin("lookups", f"{paths} of {sum(change_rows.values()):,} changed rows")
        with explained("lookup paths"):
            lookups = start_lookups(
                self.spark, self.program["paths"], self.program["shared"], change_rows
            )
            counts = self._fold(lookups)
        self._compare()
        self._commit_merge(counts, lookups)

    def _refuse_to_send(self, change_rows: dict[str, int]) -> None:
        """No hint to broadcast, which Spark obeys whatever the size is, where a change has more
        rows than the plan expected and than may be sent."""
        for driver, rows in more_than_sent(self.program, change_rows):
            text = f"the change of {driver} has {rows:,} rows, too many for the broadcasts planned"
            if text not in self.warnings:
                self.warnings.append(text)
            without_hints(self.spark)

    def _commit_merge(self, counts: dict[str, int], lookups: Lookups | None) -> None:
        near = self._near(sum(counts.values()))
        if any("." in name for name in self.target["columns"]):
            without_repartition(self.spark)
        self._commit(lambda: self._run_merge(near), counts, lookups)

    def _commit(
        self, write: Callable[[], Any], counts: dict[str, int], lookups: Lookups | None
    ) -> None:
        """Commit the epoch by one statement; once more where only maintenance came between.

        A statement that fails after its commit, say at a hook, has done its work.
        """
        place, epoch = self.target["place"], self.plan["epoch"]
        self.on_step("before_merge", {"rows": counts})
        rows = f"of {sum(counts.values()):,} rows into {place}" if counts else f"of {place}"
        refuse_changed_files(self.plan)
        for left in reversed(range(_TRIES)):
            self._check_target(replaced=not counts and self.plan["mode"] == "full")
            record = metadata_of(self._record(counts, lookups))
            marks = commit_marks(self.spark, f"deltajoin:{self.plan['model']}", epoch, record)
            self.watch.begin("write", rows)
            try:
                with explained(f"write of {place}"), marks:
                    write()
                break
            except DeltaJoinError as error:
                if self._has_landed():
                    break
                if error.code != "CONCURRENT_RUN" or not left:
                    raise
        self.committed = last_commit(self.spark)

    def _has_landed(self) -> bool:
        """Whether a write that failed did commit, so that only its answer is lost."""
        try:
            commits = commits_since(self.spark, self.target["location"], self.previous)
        except Exception:  # the session is gone, too
            return False
        return any(c.record and c.record.get("run_id") == self.run_id for c in commits)

    def _near(self, rows: int) -> str:
        """Where a MERGE of so many rows looks for them: within the ranges of their keys."""
        if not rows:
            return " AND FALSE"
        stored = targets.read_stored(self.spark, self.target)
        key, records = self.target["key"], self.target.get("records")
        near = self.narrowing.of_target("to_write", rows, stored, key, records)
        return near and f" AND {near}"

    def _run_merge(self, near: str) -> None:
        """The MERGE, by the hash of rows where they have one, and by the rows if some share one."""
        merge, place = self.program["merge"], self.target["place"]
        for into in filter(None, (merge.get("by_hash"), merge["into"])):
            try:
                with explained(f"write of {place}"), for_target(self.spark, self.target):
                    self.spark.sql(f"{into}{near}\n{merge['whens']}")
                return
            except DeltaJoinError as error:
                if into == merge["into"] or error.code != "ROWS_COLLIDE":
                    raise

    def _compare(self) -> None:
        shadow = self.program.get("shadow")
        if shadow is not None:
            self.watch.begin("comparison", "with the whole query")
            floats = self.plan["shadow"]["floats"]
            self.noted["shadow"] = compare(self.spark, shadow, self.target, floats)
            self.on_step("compared", {"rows": self.noted["shadow"]["rows"]})

    def _fold(self, lookups: Lookups) -> dict[str, int]:
        rows = lookups.union()
        if rows is None:  # no path is live: the epoch is committed without a row
            nothing_to_write(self.spark, self.target)
            return counts_of({})
        rows.createOrReplaceTempView("path_rows")
        if self.program["touched"]:  # the groups, their rows in the target and where they are read
            touched = materialised(self.spark, "touched", self.program["touched"])
            self.narrowing.hold({"touched": touched["rows"]})
            open_statements(self.spark, self.program["regroup"])
        folded = self.spark.sql(self.program["fold"])
        if self.target.get("hashed"):
            stored = targets.read_stored(self.spark, self.target)
            folded = with_row_hash(folded, self.target, stored.schema)
        counted = counted_columns(self.target["kind"])
        return counts_of(materialised(self.spark, "to_write", folded, counted))

    # the record, and what the history says ----------------------------------------------------

    def _record(self, counts: dict[str, int], lookups: Lookups | None) -> dict[str, Any]:
        plan, settings = self.plan, self.plan["settings"]
        reports = [run.report() for run in lookups.runs] if lookups else []
        record = record_of(plan, self.target, reports, self.derived)
        warnings = [*plan["warnings"], *self.warnings, *surprises(record["paths"])]
        warnings += drift(self.caller, settings)
        evidence = {name: plan[name] for name in ("differs", "tied") if plan.get(name)}
        if self.proof is not None:
            evidence = self.proof.report
            warnings += self.proof.warnings
        found = {
            **self.noted,
            "narrowed": self.narrowing.used,
            "stamps": self._stamps(),
            "evidence": evidence,
        }
        return record | {
            "target_previous": self.previous,
            "columns": targets.visible(self.target),
            "rows": counts,
            "settings": settings or read_settings(self.spark),
            "warnings": warnings,
            "run_id": self.run_id,
            "started_at": self.started_at,
            "phases": self.watch.phases,
            "seconds": self.watch.seconds,
            **{name: value for name, value in found.items() if value or value == 0},
        }

    def _stamps(self) -> dict[str, Any]:
        """The stamps of the rows that the epoch writes."""
        if self.program.get("stamps") is None:
            return {}
        with explained(f"stamps of {self.plan['model']}"):
            (row,) = self.spark.sql(self.program["stamps"]).collect()
        return dict(row.asDict())

    def _check_target(self, replaced: bool) -> None:
        """Refuse to write where someone has changed the target's rows since the plan; an overwrite
        that was asked for takes the place of whatever is there."""
        with explained(f"commits of {self.target['place']}"):
            commits = commits_since(self.spark, self.target["location"], self.previous)
        if not replaced:
            refuse_changed(commits, self.plan["epoch"], self.target["place"])
        self.previous += len(commits)

    def _verify(self) -> dict[str, Any]:
        """The commit of the epoch, found to be ours and to follow the rows of its plan."""
        epoch, place, location = self.plan["epoch"], self.target["place"], self.target["location"]
        with explained(f"commits of {place}"):
            found = self.committed is not None and self.committed > self.previous
            last = self.committed if found else None
            commits = commits_since(self.spark, location, self.previous, last)
        for commit in commits:
            if commit.record is not None and commit.record.get("run_id") == self.run_id:
                refuse_changed(commits[: commits.index(commit)], epoch, place)
                return {"record": commit.record, "version": commit.version, "location": location}
        if any(commit.record and commit.record["epoch"] >= epoch for commit in commits):
            raise overtaken(epoch, place)
        raise DeltaJoinError(
            "COMMIT_MISSING",
            f"the target's history does not show epoch {epoch}",
            where=place,
            remedy="Run again.",
        )
