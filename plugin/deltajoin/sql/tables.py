"""Table references of a query: which are CTEs, which are sources, where they stand in the text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.names import quote, split_dotted
from deltajoin.sql.dialect import edited, parse, refused
from deltajoin.sql.spans import around, span_of

Parts = tuple[str, ...]
Edit = tuple[int, int, str]


def find_cte(table: exp.Table) -> exp.CTE | None:
    """The CTE that a table name refers to, by SQL's lexical scoping; None for a real table."""
    if len(table.parts) != 1:
        return None
    above: list[exp.Expr] = [table]
    while (parent := above[-1].parent) is not None:
        ctes = parent.args.get("with_") if isinstance(parent, exp.Query) else None
        recursive = ctes is not None and ctes.args.get("recursive")
        for cte in ctes.expressions if ctes else []:
            if any(node is cte for node in above) and not recursive:
                break
            if cte.alias.lower() == table.name.lower():
                found: exp.CTE = cte
                return found
        above.append(parent)
    return None


def only_query(select: exp.Select) -> exp.Expr | None:
    """The query that alone stands in FROM, in brackets or by the name of its CTE."""
    source = select.args.get("from_")
    node = source.this if source is not None and not select.args.get("joins") else None
    if node is None or node.args.get("joins") or node.args.get("pivots"):
        return None
    if isinstance(node, exp.Table):
        cte = find_cte(node)
        return cte.this if cte is not None else None
    return node.this if isinstance(node, exp.Subquery) else None


def real_tables(query: exp.Query) -> list[exp.Table]:
    """The references to tables, not to CTEs, anywhere in a query."""
    return [table for table in query.find_all(exp.Table) if is_real(table)]


def is_real(table: exp.Table) -> bool:
    """True for a reference to a table: neither to a CTE nor to what a function makes."""
    return isinstance(table.this, exp.Identifier) and find_cte(table) is None


def source_names(sql: str) -> tuple[str, ...]:
    """Names of the tables that a query reads, CTE names excluded, sorted.

    They are the keys that `Model.sources` needs; parts are joined by dots.

    Example:
        >>> source_names("WITH c AS (SELECT * FROM db.t) SELECT * FROM c JOIN `u` USING (k)")
        ('db.t', 'u')
    """
    return tuple(sorted({".".join(parts_of(table)) for table in real_tables(parse(sql))}))


def table_key(table: exp.Table, sources: Collection[str]) -> str:
    """The source that a table reference means; case and backticks don't matter.

    Raises:
        DeltaJoinError: UNKNOWN_TABLE.
    """
    parts = lowered(parts_of(table))
    for source in sorted(sources):
        if source.lower() == ".".join(parts) or lowered(split_dotted(source)) == parts:
            return source
    what = f"'{'.'.join(parts_of(table))}' is not among the model's sources"
    known = ", ".join(sorted(sources)) or "none"
    raise refused("UNKNOWN_TABLE", what, table, f"Declare it in sources; known: {known}.")


def is_pinned(table: exp.Table) -> bool:
    """True for a table at a version of its own: `t VERSION AS OF 3`, `t TIMESTAMP AS OF ...`."""
    return bool(table.args.get("version"))


def parts_of(table: exp.Table) -> Parts:
    """The parts of a table's name as they are written, without backticks."""
    return tuple(part.name for part in table.parts)


def lowered(parts: Iterable[str]) -> Parts:
    """The parts of a name as they are compared."""
    return tuple(part.lower() for part in parts)


def resolve_tables(query: exp.Query, sources: Collection[str]) -> tuple[str, ...]:
    """The sources that a query reads, sorted.

    Raises:
        DeltaJoinError: UNKNOWN_TABLE; TIME_TRAVEL, where a version is computed, which Delta allows
            by no path.
    """
    tables = real_tables(query)
    for table in filter(is_pinned, tables):
        at = table.args["version"].expression
        if not isinstance(at.this if isinstance(at, exp.Cast) else at, exp.Literal):
            what = f"the version of '{table.name}' is computed"
            remedy = "Write a number, a string or TIMESTAMP '...'."
            raise refused("TIME_TRAVEL", what, table, remedy)
    return tuple(sorted({table_key(table, sources) for table in tables}))


def replace_tables(
    sql: str,
    views: Mapping[str, str],
    selects: Mapping[str, str] | None = None,
    paths: Mapping[str, str] | None = None,
) -> str:
    """The query's own text with every source name replaced by a view, and nothing else changed; by
    a subquery where `selects` has one for the source, by its table in `paths` where the reference
    names a version of its own, which a view can't have.

    A reference without alias gets the table's name as alias, so that qualified columns still bind.

    Raises:
        DeltaJoinError: TIME_TRAVEL, where a reference names a version, and `paths` has no table.
    """
    edits: list[Edit] = []
    query = parse(sql)
    for table in real_tables(query):
        source = table_key(table, views)
        view = (selects or {}).get(source) or quote(views[source])
        if is_pinned(table):
            if (path := (paths or {}).get(source)) is None:
                raise unversioned(f"'{source}'", table)
            view = f"delta.{quote(path)}"
        edits += redirected(table, view)
        edits += unqualified(query, table)
    return edited(sql, edits)


def unversioned(what: str, table: exp.Table) -> DeltaJoinError:
    """The refusal of a version of what has none."""
    message = f"{what} has no versions that the SQL could name"
    return refused("TIME_TRAVEL", message, table, "Remove VERSION or TIMESTAMP AS OF.")


def redirected(table: exp.Table, words: str) -> Iterator[Edit]:
    """The edits that read something else where a table is read, by its name or alias."""
    start, end = around(table.parts)
    yield start, end, words
    if not table.alias:  # which stands behind a version and TABLESAMPLE
        parts = filter(None, map(table.args.get, ("version", "sample")))
        end = max([end, *(span.end for part in parts if (span := span_of(part)))])
        yield end, end, f" AS {quote(table.name)}"


def unqualified(query: exp.Query, table: exp.Table) -> Iterator[Edit]:
    """`schema.table.column` -> `table.column` where the table gets an alias: it has no schema."""
    name = lowered(parts_of(table))
    if table.alias or any(t.alias.lower() == name[0] for t in query.find_all(exp.Table)):
        return
    for column in query.find_all(exp.Column):
        written = lowered(part.name for part in column.parts)
        for size in range(2, min(len(name), len(written) - 1) + 1):
            if written[:size] == name[-size:]:
                yield *around(column.parts[:size]), quote(column.parts[size - 1].name)
