"""The command line: plan, explain, emit, run, run-all, audit show, audit verify.

Exit codes: 0 done, 1 refused or failed (the code is printed), 2 usage. With `--json` one document
goes to stdout and nothing else; progress and errors for people go to stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from deltajoin.errors import DeltaJoinError
from deltajoin.model import DETERMINISTIC, MODES, Model, is_path, load_model
from deltajoin.storage import storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltajoin.delta.plan import DeltaPlan


def _pairs(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values:
        name, found, rest = value.partition("=")
        if not found or not name or not rest:
            raise click.BadParameter(f"'{value}' is not NAME=VALUE", param=option)
        if name in pairs:
            raise click.BadParameter(f"'{name}' is given twice", param=option)
        pairs[name] = rest
    return pairs


def _storage(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """As `_pairs`, but no message repeats what may be secret."""
    for number, value in enumerate(values, start=1):
        name, found, rest = value.partition("=")
        if not (name and found and rest):
            raise click.BadParameter(f"number {number} is not NAME=VALUE", param=option)
    return _pairs(context, option, values)


_MODEL_OPTIONS = (
    click.option("--model", "model_file", type=click.Path(), help="The model as a YAML file."),
    click.option("--sql", "sql_file", type=click.Path(), help="File with the SELECT."),
    click.option("--source", "sources", multiple=True, callback=_pairs, help="NAME=PATH"),
    click.option("--key", "keys", multiple=True, callback=_pairs, help="NAME=COL,COL"),
    click.option("--target", help="Delta path (or catalog name) of the result."),
    click.option("--mode", type=click.Choice(MODES), help="Default: auto."),
    click.option(
        "--reference",
        "references",
        multiple=True,
        callback=_pairs,
        help="NAME.COL=NAME.COL: a foreign key, for estimates.",
    ),
    click.option("--strategy", help="Of lookup paths. Default: cost."),
    click.option("--no-reorder", is_flag=True, help="Keep the joins as the query nests them."),
    click.option("--order", help="ALIAS,ALIAS,...: force the order of the whole query."),
    click.option(
        "--function", "functions", multiple=True, help="NAME of a function of yours: deterministic."
    ),
    click.option("--sketches", is_flag=True, help="Count distinct values at every rebuild."),
    click.option("--stamp", "stamps", multiple=True, help="COL: rendered anew at each run."),
    click.option("--partition-by", help="COL,COL: partitions of the target."),
    click.option("--clustered-by", help="COL,COL: liquid clustering of the target."),
    click.option(
        "--tblproperty",
        "tblproperties",
        multiple=True,
        callback=_pairs,
        help="NAME=VALUE: a property of the target's table.",
    ),
    click.option(
        "--storage-option",
        "storage_options",
        multiple=True,
        callback=_storage,
        help="NAME=VALUE by delta-rs's names; VALUE may be ${VARIABLE} of the environment.",
    ),
    click.option("--name", help="Name of the model; default: the SQL file's stem."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)


def _with_model(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the model options, hand it one `Model`, report our errors with exit code 1."""

    @wraps(command)
    def wrapped(as_json: bool, **options: Any) -> None:
        try:
            model = _model(options)
            with storage(model.storage_options):
                command(model=model, as_json=as_json, **options)
        except DeltaJoinError as error:
            _fail(error, as_json)

    for option in reversed(_MODEL_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def _model(options: dict[str, Any]) -> Model:
    model_file, sql_file = options.pop("model_file"), options.pop("sql_file")
    sources, keys = options.pop("sources"), options.pop("keys")
    target, mode, name = options.pop("target"), options.pop("mode"), options.pop("name")
    planning = _planning(options)
    if model_file:
        if sql_file or sources or keys or target or name:
            raise click.UsageError("--model stands alone (with --mode, orders and --json)")
        loaded = load_model(model_file)
        return replace(loaded, **({} if mode is None else {"mode": mode}), **planning)
    if not (sql_file and sources and target):
        raise click.UsageError("give --model, or --sql with --source and --target")
    path = Path(sql_file)
    try:
        sql = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {path}: {error}") from error
    columns = {table: _names(text) for table, text in keys.items()}
    return Model(name or path.stem, sql, sources, target, columns, mode or "auto", **planning)


def _planning(options: dict[str, Any]) -> dict[str, Any]:
    """What is said of orders, estimates and the target's layout, as far as it is said."""
    references, strategy = options.pop("references"), options.pop("strategy")
    order = options.pop("order")
    given: dict[str, Any] = {"reorder": False} if options.pop("no_reorder") else {}
    given |= {"sketches": True} if options.pop("sketches") else {}
    functions, stamps = options.pop("functions"), options.pop("stamps")
    given |= {"stamps": stamps} if stamps else {}
    for name in ("partition_by", "clustered_by"):
        columns = options.pop(name)
        given |= {name: _names(columns)} if columns else {}
    for name in ("tblproperties", "storage_options"):
        pairs = options.pop(name)
        given |= {name: pairs} if pairs else {}
    given |= {"functions": dict.fromkeys(functions, DETERMINISTIC)} if functions else {}
    given |= {"references": references} if references else {}
    given |= {"strategy": strategy} if strategy else {}
    return given | ({"order": _names(order)} if order else {})


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False))


def _fail(error: DeltaJoinError, as_json: bool) -> NoReturn:
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
    planned = _plan(model)
    if as_json:
        _print_json(planned.to_dict())
    else:
        click.echo(_explain(planned))


@main.command()
@_with_model
@click.option("--svg", type=click.Path(path_type=Path), help="Also write a picture to this file.")
@click.option("--trace", is_flag=True, help="Also list the states that the planner considered.")
def explain(model: Model, as_json: bool, svg: Path | None, trace: bool) -> None:
    """Show strategy, how operators are kept, orders and lookup paths, and why they are so."""
    from deltajoin.audit.explain import explanation, trace_text

    planned = _plan(model)
    text = _explain(planned)
    found = {"explain": text, "plan_hash": planned.hash}
    if svg is not None:
        _write_picture(planned, svg)
        found["svg"] = str(svg)
    traced = trace_text(planned) if trace else ""
    if as_json:
        lines = {"trace": traced.split("\n")} if trace else {}
        plan = planned.to_dict()
        _print_json({**found, **lines, "plan": plan, "explanation": explanation(planned)})
    else:
        click.echo(text)
        if trace:
            click.echo(traced)


def _write_picture(planned: DeltaPlan, file: Path) -> None:
    from deltajoin.audit.explain import explanation
    from deltajoin.audit.picture import picture

    try:
        file.write_text(picture(planned.to_dict(), explanation(planned)), encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"cannot write {file}: {error}") from error


def _plan(model: Model) -> DeltaPlan:
    from deltajoin.api import plan as make_plan

    return make_plan(model)


def _explain(planned: DeltaPlan) -> str:
    from deltajoin.api import explain as explain_plan

    return explain_plan(planned)


@main.command()
@_with_model
@click.option("--out", type=click.Path(path_type=Path), help="Folder for job.py, deltajoin.zip.")
def emit(model: Model, as_json: bool, out: Path | None) -> None:
    """Write the PySpark job of the next run; without --out print its source."""
    from deltajoin.emit.job import job_source, write_job

    planned = _plan(model)
    source = job_source(planned)
    files = write_job(planned, out) if out else None
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
    from deltajoin.api import run as run_model
    from deltajoin.audit.render import render_text

    def progress(name: str, info: dict[str, Any]) -> None:
        if not as_json:
            shown = " ".join(f"{key}={value}" for key, value in info.items())
            click.echo(f"  {name} {shown}".rstrip(), err=True)

    with _session(master, remote) as session:
        record = run_model(model, session, on_step=progress).to_dict()
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
    from deltajoin.chain import ModelRun
    from deltajoin.chain import run_all as run_models

    def told(one: ModelRun) -> None:
        if not as_json:
            failure = f"{one.model}  {one.status}  {one.error}"
            click.echo(render_text(one.record.to_dict()) if one.record else failure)

    try:
        with _session(master, remote) as session:
            summary = run_models([load_model(file) for file in model_files], session, on_run=told)
    except DeltaJoinError as error:
        _fail(error, as_json)
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

    try:
        yield session
    finally:
        for spark in started:
            spark.stop()


@main.group()
def audit() -> None:
    """The record of what each epoch read and wrote."""


def _with_target(command: Callable[..., None]) -> Callable[..., None]:
    """Give an audit command the target's folder; the other model options are accepted, unused."""

    @wraps(command)
    def wrapped(model_file: str | None, target: str | None, as_json: bool, **options: Any) -> None:
        own = {name: options[name] for name in signature(command).parameters if name in options}
        if options.get("rows") and not model_file:
            raise click.UsageError("--rows needs --model")
        if bool(model_file) == bool(target):
            raise click.UsageError("give --target or --model")
        try:
            model = load_model(model_file) if model_file else None
            given = (model.storage_options if model else {}) | options["storage_options"]
            with storage(given):
                place = model.target if model else str(target)
                if "model" in signature(command).parameters:
                    own["model"] = model
                command(target=_state(place), as_json=as_json, **own)
        except DeltaJoinError as error:
            _fail(error, as_json)

    for option in reversed(_MODEL_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def _state(place: str) -> Any:
    from deltajoin.catalog import load_target

    if not is_path(place) and not Path(place).exists():
        raise DeltaJoinError(
            "CATALOG_NAME",
            f"'{place}' is a catalog name, which only a Spark session can locate",
            where=place,
            remedy="Give the target's path.",
        )
    state = load_target(place)
    if state is None:
        raise DeltaJoinError(
            "TARGET_MISSING", "the target does not exist", where=place, remedy="Run the model."
        )
    return state


@audit.command()
@_with_target
@click.option("--epoch", type=int, help="Default: all that the history holds.")
def show(target: Any, as_json: bool, epoch: int | None) -> None:
    """Show the audit records, oldest first, as the target's history tells them."""
    from deltajoin.audit.render import render_text
    from deltajoin.audit.verify import history

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
    target: Any,
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
    from deltajoin.audit.verify import Finding, history
    from deltajoin.audit.verify import verify as check

    rebuilt = Ledger(target.location).rebuild(target) if rebuild else ()
    findings = check(target)
    compared = None
    if rows and model is not None:
        try:
            with _session(master, remote) as session:
                compared = check_rows(model, session)["rows"]
        except DeltaJoinError as error:
            findings += (Finding(error.code, error.where or "", error.message),)
    epochs = len(history(target))
    if as_json:
        _print_json(
            {
                "epochs": epochs,
                "findings": [finding.to_dict() for finding in findings],
                "rebuilt": list(rebuilt),
                "rows": compared,
                "verified": not findings,
            }
        )
    else:
        for number in rebuilt:
            click.echo(f"rebuilt the audit file of epoch {number}")
        for finding in findings:
            click.echo(f"{finding.code}: {finding.message} (at {finding.where})")
        told = f", {compared:,} rows as the query has them" if compared is not None else ""
        click.echo(f"{epochs} epochs, {len(findings)} findings{told}")
    if findings:
        sys.exit(1)


if __name__ == "__main__":
    main()
