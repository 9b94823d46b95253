"""The calls that the macros make on dbt's adapter: run a model, explain it, wrap its outcome.

Caller: `macros/delta_join.sql`. A `DeltaJoinError` leaves here as a dbt error with the same text,
so that code, place and remedy show in dbt's log and in `run_results.json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dbt.adapters.base import available
from dbt.adapters.base.meta import AdapterMeta
from dbt.adapters.contracts.connection import AdapterResponse

from deltajoin.adapters.dbt.response import DeltaJoinResponse, respond
from deltajoin.audit.outcome import outcome_lines
from deltajoin.errors import DeltaJoinError

_NO_RUN: dict[str, Any] = {"strategy": "noop", "epoch": None, "rows": {}, "paths": []}


class DeltaJoinMixin(metaclass=AdapterMeta):
    """Methods added in front of a registered Spark adapter class."""

    config: Any
    drop_relation: Any
    get_macro_resolver: Any

    @available.parse(lambda *_, **__: respond(_NO_RUN))
    def deltajoin_run(
        self,
        node: Mapping[str, Any],
        sql: str,
        relation: Any,
        graph: Mapping[str, Any],
        existing: Any = None,
        full_refresh: bool = False,
    ) -> DeltaJoinResponse:
        """Bring `relation` to its query's state; the response carries the audit record."""
        from dbt_common.invocation import get_invocation_id

        from deltajoin.adapters.dbt.build import build
        from deltajoin.adapters.dbt.invocations import invocation
        from deltajoin.contract import BACKING_SUFFIX

        def give_way() -> None:
            backing = {"identifier": existing.identifier + BACKING_SUFFIX}
            self.drop_relation(existing)
            self.drop_relation(existing.incorporate(path=backing, type="table"))

        name, run = str(node["unique_id"]), invocation(get_invocation_id())
        with dbt_errors():
            try:
                audit = build(
                    node,
                    sql,
                    relation,
                    graph,
                    credentials=self.config.credentials,
                    frontier=run.frontier,
                    full_refresh=full_refresh,
                    give_way=give_way if existing is not None else None,
                )
            except DeltaJoinError as error:
                run.outcomes[name] = (f"failed: {error}",)
                raise
        run.outcomes[name] = outcome_lines(audit)
        return respond(audit)

    @available.parse(lambda *_, **__: "")
    def deltajoin_explain(
        self, node: Mapping[str, Any], relation: Any, graph: Mapping[str, Any]
    ) -> str:
        """What a run of the node would do now, as text."""
        from deltajoin.adapters.dbt.build import describe

        sql = self._compiled(str(node["unique_id"]))
        with dbt_errors():
            return describe(node, sql, relation, graph, credentials=self.config.credentials)

    def _compiled(self, name: str) -> str:
        """The SQL of a node as dbt compiles it for a run, with its ephemeral models as CTEs.

        An operation's own `ref` refuses ephemeral models, and has no `this` of the model.
        """
        from dbt.compilation import Compiler

        manifest = self.get_macro_resolver()
        node = Compiler(self.config).compile_node(manifest.nodes[name], manifest, write=False)
        return str(node.compiled_code)

    @available.parse(lambda message: AdapterResponse(_message=message))
    def deltajoin_response(self, message: str) -> AdapterResponse:
        """A response without an audit record, for a run that touched no rows."""
        return AdapterResponse(_message=message, rows_affected=0)


@contextmanager
def dbt_errors() -> Iterator[None]:
    """Turn our errors and Spark's into dbt's, so that dbt reports them as the model's failure."""
    from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

    try:
        yield
    except DeltaJoinError as error:
        raise DbtRuntimeError(str(error)) from error
    except Exception as error:
        if type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise DbtDatabaseError(str(error)) from error
        raise
