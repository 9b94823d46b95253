"""The command line: plan, explain, emit, run, run-all, audit show, audit verify.

Exit codes: 0 done, 1 refused or failed (the code is printed), 2 usage. With `--json` one document
goes to stdout and nothing else; progress and errors for people go to stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import deltajoin
from deltajoin.errors import DeltaJoinError
from deltajoin.model import DETERMINISTIC, MODES, Model, is_path, load_model
from deltajoin.storage import storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltajoin.catalog import TargetState
    from deltajoin.chain import ModelRun
    from deltajoin.places import Locate


def _pairs(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for number, value in enumerate(values, start=1):
        name, _found, rest = value.partition("=")
        if not (name and rest):
            secret = option.name == "storage_options"
            shown = f"number {number}" if secret else f"'{value}'"
            raise click.BadParameter(f"{shown} is not NAME=VALUE", param=option)
        if name in pairs:
            raise click.BadParameter(f"'{name}' is given twice", param=option)
        pairs[name] = rest
    return pairs


def _columns(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()


def _keys(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    pairs = _pairs(context, option, values)
    return {table: _columns(context, option, text) for table, text in pairs.items()}


def _functions(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> dict[str, str]:
    return dict.fromkeys(names, DETERMINISTIC)


_PATH: Mapping[str, Any] = {"type": click.Path()}
_SWITCHED_OFF, _SWITCHED_ON = ({"flag_value": value, "default": None} for value in (False, True))
_LIST: Mapping[str, Any] = {"callback": _columns}
_PAIRS: Mapping[str, Any] = {"multiple": True, "callback": _pairs}
#: Flag, field of the model (or what it is read from), how it is read, help.
_MODEL_OPTIONS: tuple[tuple[str, str, Mapping[str, Any], str], ...] = (
    ("--model", "model_file", _PATH, "The model as a YAML file."),
    ("--sql", "sql_file", _PATH, "File with the SELECT."),
    ("--source", "sources", _PAIRS, "NAME=PATH"),
    ("--key", "keys", {**_PAIRS, "callback": _keys}, "NAME=COL,COL"),
    ("--target", "target", {}, "Delta path (or catalog name) of the result."),
    ("--mode", "mode", {"type": click.Choice(MODES)}, "Default: auto."),
    ("--reference", "references", _PAIRS, "NAME.COL=NAME.COL: a foreign key, for estimates."),
    ("--strategy", "strategy", {}, "Of lookup paths. Default: cost."),
    ("--no-reorder", "reorder", _SWITCHED_OFF, "Keep the joins as the query nests them."),
    ("--order", "order", _LIST, "ALIAS,ALIAS,...: force the order of the whole query."),
    (
        "--function",
        "functions",
        {**_PAIRS, "callback": _functions},
        "NAME of a function of yours: deterministic.",
    ),
    ("--sketches", "sketches", _SWITCHED_ON, "Count distinct values at every rebuild."),
    ("--stamp", "stamps", {"multiple": True}, "COL: rendered anew at each run."),
    ("--partition-by", "partition_by", _LIST, "COL,COL: partitions of the target."),
    ("--clustered-by", "clustered_by", _LIST, "COL,COL: liquid clustering of the target."),
    ("--tblproperty", "tblproperties", _PAIRS, "NAME=VALUE: a property of the target's table."),
    (
        "--storage-option",
        "storage_options",
        _PAIRS,
        "NAME=VALUE by delta-rs's names; VALUE may be ${VARIABLE} of the environment.",
    ),
    ("--name", "name", {}, "Name of the model; default: the SQL file's stem."),
    ("--json", "as_json", {"is_flag": True}, "Print one JSON document."),
)


def _with_options(wrapped: Callable[..., None]) -> Callable[..., None]:
    for flag, name, reading, text in reversed(_MODEL_OPTIONS):
        wrapped = click.option(flag, name, **reading, help=text)(wrapped)
    return wrapped


def _with_model(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the model options, hand it one `Model`, report our errors with exit code 1."""

    @wraps(command)
    def wrapped(as_json: bool, **options: Any) -> None:
        own = {name: options.pop(name) for name in _parameters(command) & options.keys()}
        with _reported(as_json):
            model = _model(**options)
            with storage(model.storage_options):
                command(model=model, as_json=as_json, **own)

    return _with_options(wrapped)


def _parameters(command: Callable[..., None]) -> set[str]:
    return set(signature(command).parameters)


def _model(model_file: str | None, sql_file: str | None, **options: Any) -> Model:
    given: dict[str, Any] = {n: value for n, value in options.items() if value or value is False}
    if model_file:
        if sql_file or {"sources", "keys", "target", "name"} & given.keys():
            raise click.UsageError("--model stands alone (with --mode, orders and --json)")
        return replace(load_model(model_file), **given)
    if not (sql_file and {"sources", "target"} <= given.keys()):
        raise click.UsageError("give --model, or --sql with --source and --target")
    path = Path(sql_file)
    try:
        sql = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {path}: {error}") from error
    return Model(**({"name": path.stem, "sql": sql} | given))


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False))


@contextmanager
def _reported(as_json: bool) -> Iterator[None]:
    """Report our errors with exit code 1."""
    try:
        yield
    except DeltaJoinError as error:
        if as_json:
            _print_json({"error": error.to_dict()})
        click.echo(str(error), err=True)
        sys.exit(1)


@click.group()
@click.version_option(package_name="deltajoin")
def main() -> None:
    """Keep multi-table joins as incremental Delta tables, exactly."""


@main.command()
@_with_model
def plan(model: Model, as_json: bool) -> None:
    """Plan a run from the Delta logs, without Spark."""
    planned = deltajoin.plan(model)
    if as_json:
        _print_json(planned.to_dict())
    else:
        click.echo(deltajoin.explain(planned))


@main.command()
@_with_model
@click.option("--svg", type=click.Path(path_type=Path), help="Also write a picture to this file.")
@click.option("--trace", is_flag=True, help="Also list the states that the planner considered.")
def explain(model: Model, as_json: bool, svg: Path | None, trace: bool) -> None:
    """Show strategy, how operators are kept, orders and lookup paths, and why they are so."""
    from deltajoin.audit.explain import explanation, trace_text
    from deltajoin.audit.picture import picture
    from deltajoin.audit.render import render_plan

    planned = deltajoin.plan(model)
    content, explained = planned.to_dict(), explanation(planned)
    found = {"explain": render_plan(content, explained), "plan_hash": planned.hash}
    if svg is not None:
        found["svg"] = str(svg)
        try:
            svg.write_text(picture(content, explained), encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"cannot write {svg}: {error}") from error
    traced = trace_text(planned) if trace else ""
    if as_json:
        lines = {"trace": traced.split("\n")} if trace else {}
        _print_json({**found, **lines, "plan": content, "explanation": explained})
    else:
        click.echo("\n".join([found["explain"], *([traced] if trace else [])]))


@main.command()
@_with_model
@click.option("--out", type=click.Path(path_type=Path), help="Folder for job.py, deltajoin.zip.")
def emit(model: Model, as_json: bool, out: Path | None) -> None:
    """Write the PySpark job of the next run, and its plan to the target's ledger, as a run does;
    without --out print its source only."""
    from deltajoin.api import freeze
    from deltajoin.emit.job import job_source, write_job

    planned = deltajoin.plan(model)
    source = job_source(planned)
    files = None
    if out:
        freeze(planned, storage_options=model.storage_options)
        files = write_job(planned, out)
    if as_json:
        found = {"job": str(files.job), "py_files": str(files.py_files)} if files else {}
        _print_json({**found, "plan_hash": planned.hash, "source": source})
    elif files:
        click.echo(f"spark-submit --py-files {files.py_files} {files.job}")
    else:
        click.echo(source, nl=False)


def _with_spark(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say where Spark runs."""
    master = click.option(
        "--master", default="local[*]", show_default=True, help="Spark master, to start Spark here."
    )
    remote = click.option(
        "--remote", metavar="URL", help="Spark Connect server, sc://HOST:PORT, to run there."
    )
    return master(remote(command))


@main.command()
@_with_model
@_with_spark
def run(model: Model, as_json: bool, master: str, remote: str | None) -> None:
    """Bring the target to its query over the sources as they are now."""
    from deltajoin.audit.render import render_text

    def progress(name: str, info: dict[str, Any]) -> None:
        if not as_json:
            shown = " ".join(f"{key}={value}" for key, value in info.items())
            click.echo(f"  {name} {shown}".rstrip(), err=True)

    with _session(master, remote) as session:
        record = deltajoin.run(model, session, on_step=progress).to_dict()
    if as_json:
        _print_json(record)
    else:
        click.echo(render_text(record))


@main.command("run-all")
@click.argument("model_files", nargs=-1, required=True, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@_with_spark
def run_all(model_files: tuple[str, ...], as_json: bool, master: str, remote: str | None) -> None:
    """Run several models over one frontier, each after those whose targets it reads."""
    from deltajoin.audit.render import render_text

    def show_run(one: ModelRun) -> None:
        if not as_json:
            failure = f"{one.model}  {one.status}  {one.error}"
            click.echo(render_text(one.record.to_dict()) if one.record else failure)

    with _reported(as_json), _session(master, remote) as session:
        models = [load_model(file) for file in model_files]
        summary = deltajoin.run_all(models, session, on_run=show_run)
    if as_json:
        _print_json(summary.to_dict())
    if summary.failed:
        names = ", ".join(one.model for one in summary.failed)
        click.echo(f"{len(summary.failed)} of {len(summary.runs)} did not run: {names}", err=True)
        sys.exit(1)


@contextmanager
def _session(master: str, remote: str | None) -> Iterator[Callable[[], SparkSession]]:
    """A function that starts a session at its first call; what it started is stopped at the end."""
    started: list[SparkSession] = []

    def session() -> SparkSession:
        from deltajoin.runtime.session import local_session, remote_session

        started.append(remote_session(remote) if remote else local_session(master=master))
        return started[-1]

    from deltajoin.runtime.failures import undoing

    def stop() -> None:
        for spark in started:
            with suppress(Exception):  # the run is told; a Spark that has ended needs no stop
                spark.stop()

    with undoing(stop):
        yield session


@main.group()
def audit() -> None:
    """The record of what each epoch read and wrote."""


def _with_target(command: Callable[..., None]) -> Callable[..., None]:
    """Give an audit command the target's place; the other model options are accepted, unused."""

    @wraps(command)
    def wrapped(model_file: str | None, target: str | None, as_json: bool, **options: Any) -> None:
        own = {name: options[name] for name in _parameters(command) & options.keys()}
        if options.get("rows") and not model_file:
            raise click.UsageError("--rows needs --model")
        if bool(model_file) == bool(target):
            raise click.UsageError("give --target or --model")
        with _reported(as_json):
            model = load_model(model_file) if model_file else None
            with storage((model.storage_options if model else {}) | options["storage_options"]):
                if "model" in _parameters(command):
                    own["model"] = model
                place = model.target if model else str(target)
                command(place=place, as_json=as_json, **own)

    return _with_options(wrapped)


def _state(place: str, locate: Locate | None = None) -> TargetState:
    from deltajoin.catalog import load_target
    from deltajoin.places import find_target, not_located

    location: str | None = place
    if not is_path(place) and not Path(place).exists():
        if locate is None:
            raise not_located(place, place, "Give the target's path; with --rows Spark locates it.")
        location, _ = find_target(place, locate)
    state = load_target(location) if location else None
    if state is None:
        raise DeltaJoinError(
            "TARGET_MISSING", "the target does not exist", where=place, remedy="Run the model."
        )
    return state


@audit.command()
@_with_target
@click.option("--epoch", type=int, help="Default: all that the history holds.")
def show(place: str, as_json: bool, epoch: int | None) -> None:
    """Show the audit records, oldest first, as the target's history tells them."""
    from deltajoin.audit.render import render_text
    from deltajoin.audit.verify import history

    target = _state(place)
    records = [r for r in history(target) if epoch is None or r["epoch"] == epoch]
    if not records:
        raise DeltaJoinError(
            "NO_EPOCH",
            "the target's history holds no such epoch",
            where=target.location,
            remedy="List all epochs without --epoch.",
        )
    if as_json:
        _print_json({"epochs": records})
    else:
        click.echo("\n\n".join(render_text(record) for record in records))


@audit.command()
@_with_target
@click.option("--rebuild", is_flag=True, help="Write lost audit files anew, then verify.")
@click.option("--rows", is_flag=True, help="Also compare the rows with the query, by Spark.")
@_with_spark
def verify(
    place: str,
    model: Model | None,
    as_json: bool,
    rebuild: bool,
    rows: bool,
    master: str,
    remote: str | None,
) -> None:
    """Check the audit files against the target's history; exit 1 on any finding."""
    from deltajoin.api import check_rows
    from deltajoin.audit.ledger import Ledger
    from deltajoin.audit.verify import WARNINGS, Finding, history
    from deltajoin.audit.verify import verify as check
    from deltajoin.places import Sessions

    findings: tuple[Finding, ...] | None = None
    compared = None
    try:
        with _session(master, remote) as session:
            sessions = Sessions(session)
            target = _state(place, sessions.locate if rows else None)
            rebuilt = Ledger(target.location).rebuild(target) if rebuild else ()
            findings = check(target)
            if rows and model is not None:
                compared = check_rows(model, sessions.get)["rows"]
    except DeltaJoinError as error:
        if findings is None:
            raise
        findings += (Finding(error.code, error.where or "", error.message),)
    warnings = [finding for finding in findings if finding.code in WARNINGS]
    findings = tuple(finding for finding in findings if finding.code not in WARNINGS)
    epochs = len(history(target))
    if as_json:
        _print_json(
            {
                "epochs": epochs,
                "findings": [finding.to_dict() for finding in findings],
                "rebuilt": list(rebuilt),
                "rows": compared,
                "verified": not findings,
                "warnings": [finding.to_dict() for finding in warnings],
            }
        )
    else:
        for number in rebuilt:
            click.echo(f"rebuilt the audit file of epoch {number}")
        for finding in (*findings, *warnings):
            click.echo(f"{finding.code}: {finding.message} (at {finding.where})")
        equal = f", {compared:,} rows as the query has them" if compared is not None else ""
        click.echo(f"{epochs} epochs, {len(findings)} findings{equal}")
    if findings:
        sys.exit(1)


if __name__ == "__main__":
    main()
