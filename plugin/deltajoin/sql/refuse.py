"""What makes a query one that is rebuilt in full: `Unsupported`, with code, place and remedy.

Nothing that Spark runs is refused here: the caller rebuilds by the user's own text, or refuses
where the mode says so. Only a parameter without a value is an error at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from deltajoin.errors import Refusal
from deltajoin.sql import functions
from deltajoin.sql.dialect import clauses_of, place, refused, text
from deltajoin.sql.grammar import is_word
from deltajoin.sql.moments import names_a_moment
from deltajoin.sql.nodes import ancestors, function_name
from deltajoin.sql.ordered import order_of


class Unsupported(Exception):
    """A construct that is rebuilt in full, at a node of the query."""

    def __init__(self, code: str, message: str, node: exp.Expr | None, remedy: str) -> None:
        super().__init__(message)
        where = None if node is None else place(node)
        self.refusal = Refusal(code, message, where or "the SQL", remedy)


def check_deterministic(query: exp.Query, declared: Collection[str] = ()) -> None:
    """Stop at every expression that could give other rows when computed again; refuse parameters.

    Args:
        declared: further functions, in lower case, that give the same for the same arguments.
    """
    for node in query.walk():
        if isinstance(node, (exp.Placeholder, exp.Parameter, exp.SessionParameter)):
            where = node if place(node) else query
            what = "the SQL has a parameter without a value"
            raise refused("SQL_PARAMETER", what, where, "Write the value as a literal.")
        if isinstance(node, exp.TableSample):
            raise changing("TABLESAMPLE", node)
        if names_a_moment(node):
            remedy = "Write the date out; where the text itself is meant, write concat('...')."
            raise changing(f"{text(node)}, which Spark reads as a date or time,", node, remedy)
        if isinstance(node, exp.Anonymous) and not isinstance(node.parent, exp.Hint):
            _check_call(node, declared)


def _check_call(call: exp.Anonymous, declared: Collection[str]) -> None:
    name = _called(call)
    if name in declared:
        return
    if name.rsplit(".", 1)[-1] in functions.NON_DETERMINISTIC:
        raise changing(f"{name}()", call)
    if name == "window_time":  # of a column that Spark's own window() has marked
        remedy = "Write `w.end - INTERVAL 1 MICROSECOND` for `window_time(w)`."
        raise Unsupported("GENERATOR", name, _placed(call), remedy)
    if name not in functions.DETERMINISTIC:
        what = f"'{name}', which is no built-in function and nothing proves deterministic,"
        remedy = f"Declare it (functions: {{{name}: deterministic}}), or use built-in functions."
        raise Unsupported("UNKNOWN_FUNCTION", what, _placed(call), remedy)


def _called(call: exp.Anonymous) -> str:
    """The name of a function as it is called, with its schema, in lower case."""
    name, parent = function_name(call), call.parent
    if not isinstance(parent, exp.Dot) or parent.expression is not call:
        return name
    before = parent.this
    parts = before.parts if isinstance(before, (exp.Column, exp.Dot)) else [before]
    return ".".join([*(part.name.lower() for part in parts), name])


def bare_functions(query: exp.Query) -> Iterator[Unsupported]:
    """The stops at `current_time` without parentheses, or at unqualified columns of that name."""
    for column in query.find_all(exp.Column):
        if is_bare(column):
            remedy = "Use a literal; if it is a column, write its table's alias before it."
            yield changing(column.name.lower(), column, remedy)


def is_bare(column: exp.Column) -> bool:
    """True for what is such a function where no table has a column of that name."""
    return is_word(column) and column.name.lower() in functions.BARE_NON_DETERMINISTIC


def changing(
    what: str,
    node: exp.Expr,
    remedy: str = "Use a column or a literal; load times belong into the source tables.",
) -> Unsupported:
    """Rebuilt whenever a source changes: the expression gives another result at each run."""
    message = f"{what}, which gives another result at each run,"
    return Unsupported("NON_DETERMINISTIC", message, _placed(node), remedy)


def _placed(node: exp.Expr) -> exp.Expr:
    """The node, or the nearest around it whose line is known."""
    return next((around for around in (node, *ancestors(node)) if place(around)), node)


def check_shape(select: exp.Query, *, layered: bool = False) -> exp.Select:
    """The select itself, a select-project-join block, grouped or not; else `Unsupported`. With
    `layered`, QUALIFY, WINDOW and LATERAL VIEW may stand in it."""
    if isinstance(select, exp.SetOperation):
        raise Unsupported("SET_OPERATION", "set operations", select, downstream("UNION"))
    if not isinstance(select, exp.Select):
        raise Unsupported("NOT_A_SELECT", type(select).__name__, select, downstream("this"))
    for argument, code, what in _CLAUSES:
        value = select.args.get(argument)
        if value and not (layered and argument in _LAYERS):
            node = value[0] if isinstance(value, list) else value
            raise Unsupported(code, what, node if place(node) else select, downstream(what))
    return select


def check_union(query: exp.SetOperation) -> None:
    """`Unsupported` for what more may be said of a set."""
    what = type(query).__name__.upper()
    if query.args.get("limit") or query.args.get("offset"):
        raise Unsupported("LIMIT", "LIMIT", query, downstream("LIMIT"))
    if clauses_of(query) - {"this", "expression", "distinct", "order", "with_"}:
        raise Unsupported("SET_OPERATION", f"{what} with more said", query, f"Write {what} alone.")


def check_expression(node: exp.Expr, grouped: bool = False) -> None:
    """`Unsupported` for windows, generators, subqueries and aggregates inside an expression, but
    for aggregates of a `grouped` select whose result rows alone decide."""
    for part in node.walk():
        if isinstance(part, exp.Window):
            raise Unsupported("WINDOW", "a window function", part, downstream("the window"))
        if isinstance(part, (exp.Query, exp.Exists, exp.Subquery)):
            raise Unsupported("SUBQUERY", "a subquery expression", part, downstream("the subquery"))
        if isinstance(part, exp.Anonymous):
            name = function_name(part)
            if grouped and name in functions.AGGREGATES:
                if name in functions.ORDER_DEPENDENT and order_of(part) is None:
                    raise Unsupported("AGGREGATE", f"{name}() without an order", part, _ORDER)
                continue
            if name in functions.AGGREGATES or name in functions.WINDOW_ONLY:
                raise Unsupported("AGGREGATE", f"{name}()", part, downstream("the aggregate"))
            if name in functions.GENERATORS:
                raise Unsupported("GENERATOR", f"{name}()", part, downstream("the generator"))


def join_kind(join: exp.Join) -> str:
    """inner, left, right, full, semi or anti; `Unsupported` for any other join."""
    if join.method not in ("", "NATURAL") or join.kind not in _KINDS:
        what = f"{join.method} {join.kind} JOIN"
        raise Unsupported("JOIN_KIND", what, join, downstream("this join"))
    if join.kind in ("SEMI", "ANTI"):
        return join.kind.lower()
    return join.side.lower() or "inner"


_ORDER = (
    "Sort what is collected: sort_array(collect_list(...)), or listagg(...) WITHIN GROUP (ORDER BY "
    "...); else it is rebuilt."
)
_KINDS = ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI")

_CLAUSES = (
    ("qualify", "WINDOW", "QUALIFY"),
    ("windows", "WINDOW", "WINDOW"),
    ("limit", "LIMIT", "LIMIT"),
    ("offset", "LIMIT", "OFFSET"),
    ("laterals", "GENERATOR", "LATERAL VIEW"),
    ("pivots", "PIVOT", "PIVOT"),
)
_LAYERS = ("qualify", "windows", "laterals")


def downstream(what: str) -> str:
    """The remedy for what another model can do with this one's rows."""
    return f"Move {what} to a model downstream; any mode but 'incremental_strict' rebuilds."
