"""A dbt node and its compiled SQL become a deltajoin model, run in dbt's own Spark session.

Only dbt-spark's `session` connection shares a process with Spark; over thrift, HTTP or ODBC there
is no session to run in and the run is refused. The session is made by the recipe of dbt-spark's
cursor, so that it is the same one; nothing is set on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from deltajoin.adapters.dbt.keys import Relations, fold, keys_of, nodes_by_table, relations_in
from deltajoin.adapters.dbt.options import layout_of, read_options
from deltajoin.adapters.dbt.place import check_free, enter, name_parts, place_of
from deltajoin.adapters.dbt.references import hints_of, references_of
from deltajoin.errors import DeltaJoinError
from deltajoin.model import Model, is_path
from deltajoin.names import quote_dotted, split_dotted
from deltajoin.sql.views import WrittenOut, gather_views, inline_views, tables_named, write_out
from deltajoin.storage import storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltajoin.delta.frontier import Frontier

_IN_THE_WAY = (
    "TARGET_NOT_OURS",
    "TARGET_OF_OTHER_MODEL",
    "TARGET_NOT_DELTA",
    "TARGET_KIND_CHANGED",
)
_NO_VIEWS = ("table", "incremental", "delta_join", "seed", "snapshot")


def build(
    node: Mapping[str, Any],
    sql: str,
    relation: Any,
    graph: Mapping[str, Any],
    *,
    credentials: Any,
    frontier: Frontier,
    full_refresh: bool = False,
    give_way: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Run the node's model once, over the frontier, and return its audit record as values.

    The frontier gets the version that the run leaves in the target. `give_way` drops what stands at
    the target. When the run can't go on there, it is called and the run repeated, with
    `full_refresh` or where `--empty` made it; else the refusal stands.
    Errors: those of `deltajoin.run`, and UNSUPPORTED_CONNECTION.
    """
    session = session_of(credentials)
    views, given = views_below(session, sql, graph), storage_of(credentials)
    model = model_of(
        node, sql, relation, graph, views=views, full_refresh=full_refresh, storage_options=given
    )
    try:
        return _run(session, model, relation, frontier)
    except DeltaJoinError as error:
        if give_way is None or not _is_in_the_way(error, relation):
            raise
        if not (full_refresh or _made_empty(session, relation)):
            raise _with_dbt_remedy(error) from error
    give_way()
    return _run(session, model, relation, frontier)


def _with_dbt_remedy(error: DeltaJoinError) -> DeltaJoinError:
    remedy = f"{error.remedy or ''} Or run once with --full-refresh, which drops it.".strip()
    return DeltaJoinError(error.code, error.message, where=error.where, remedy=remedy)


def _is_in_the_way(error: DeltaJoinError, relation: Any) -> bool:
    """Whether what stands at the target, and not a source, made the run refuse."""
    view = error.code == "NOT_DELTA" and error.where == quote_dotted(name_parts(relation))
    return view or error.code in _IN_THE_WAY


def _run(session: SparkSession, model: Model, relation: Any, frontier: Frontier) -> dict[str, Any]:
    from deltajoin.api import run

    if is_path(model.target):
        check_free(session, relation, model.target)
    audit = run(model, session, at=frontier).to_dict()
    with storage(model.storage_options):
        frontier.produced(audit["location"], audit["target_version"])
    if is_path(model.target):
        enter(session, relation, audit)
    return audit


def model_of(
    node: Mapping[str, Any],
    sql: str,
    relation: Any,
    graph: Mapping[str, Any],
    *,
    views: Mapping[str, str] = MappingProxyType({}),
    full_refresh: bool = False,
    storage_options: Mapping[str, str] = MappingProxyType({}),
) -> Model:
    """The deltajoin model of a dbt node: its unique id, its SQL, what dbt knows of its tables.

    Args:
        views: the views that the SQL reads, through views too -> their queries; they are written
            out, and what dbt knows of a view that only renames holds for its table.
        storage_options: the profile's; the node's own go over them.
    """
    where = str(node["unique_id"])
    options = read_options((node.get("config") or {}).get("deltajoin"), where)
    plain = {
        ".".join(split_dotted(name)): inline_views(text, views) for name, text in views.items()
    }
    written, tables = _read(sql, graph, views)
    relations = Relations(tables, graph, where, plain)
    resolved = {
        "keys": keys_of(options.get("keys", {}), relations),
        "references": references_of(options.get("references", {}), relations),
        "hints": hints_of(options.get("hints", {}), relations),
        "storage_options": {**storage_options, **options.get("storage_options", {})},
    }
    fields = {**options, **resolved, **layout_of(node.get("config") or {}, where)}
    return Model(
        name=where,
        sql=written.sql,
        lines=written.lines,
        sources={table: table for table in tables},
        target=place_of(node, relation),
        **(fields | ({"mode": "full"} if full_refresh else {})),
    )


def _read(
    sql: str, graph: Mapping[str, Any], views: Mapping[str, str]
) -> tuple[WrittenOut, tuple[str, ...]]:
    """The SQL down to tables, and its tables; where Spark alone can read it, those of dbt's that it
    names."""
    written = write_out(sql, views)
    named = tables_named(written.sql, relations_in(graph))
    return written, tuple(sorted({".".join(split_dotted(name)) for name in named}))


def views_below(session: SparkSession, sql: str, graph: Mapping[str, Any]) -> dict[str, str]:
    """The catalog's views that the compiled SQL reads, through views too, with their queries.

    The catalog is asked, and not the graph: dbt's graph has no compiled SQL of other nodes, a run
    may select this model alone, and a source may be a view that dbt doesn't make.
    """
    from deltajoin.adapters.dbt.views import view_sql

    nodes = nodes_by_table(graph)

    def read(parts: tuple[str, ...]) -> str | None:
        known = nodes.get(fold(quote_dotted(parts)), ())
        kinds = {(node.get("config") or {}).get("materialized") for node in known}
        return None if kinds & set(_NO_VIEWS) else view_sql(session, parts, dotted=bool(known))

    return gather_views(sql, read, relations_in(graph))


def storage_of(credentials: Any) -> dict[str, str]:
    """The storage options of a profile: its `server_side_parameters` that begin with
    `deltajoin.storage.`; Spark passes them by."""
    given = getattr(credentials, "server_side_parameters", None) or {}
    start = "deltajoin.storage."
    return {name.removeprefix(start): str(v) for name, v in given.items() if name.startswith(start)}


def session_of(credentials: Any) -> SparkSession:
    """The Spark session that dbt-spark uses for these credentials."""
    method = str(getattr(credentials, "method", None) or credentials.type)
    if method != "session":
        raise DeltaJoinError(
            "UNSUPPORTED_CONNECTION",
            f"delta_join runs inside dbt's Spark session, and this profile connects by '{method}'",
            where=f"profile output of type {credentials.type}",
            remedy="Use method: session (a remote Spark Connect server goes into "
            "server_side_parameters as spark.remote), or run the model by the CLI or Airflow.",
        )
    from pyspark.sql import SparkSession

    settings = dict(credentials.server_side_parameters)
    return SparkSession.builder.enableHiveSupport().config(map=settings).getOrCreate()


def describe(
    node: Mapping[str, Any], sql: str, relation: Any, graph: Mapping[str, Any], *, credentials: Any
) -> str:
    """The plan of a run of the node now, as text; catalog names are located by dbt's session."""
    from deltajoin.api import explain, plan
    from deltajoin.runtime.target import locate

    session = session_of(credentials)
    views, given = views_below(session, sql, graph), storage_of(credentials)
    model = model_of(node, sql, relation, graph, views=views, storage_options=given)
    return explain(plan(model, locate=lambda name: locate(session, name)))


def _made_empty(session: SparkSession, relation: Any) -> bool:
    properties = session.sql(f"show tblproperties {relation}").collect()
    return any(row[0] == "deltajoin.empty" for row in properties)
