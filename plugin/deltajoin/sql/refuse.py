"""What can't be in a model at all, and what makes it a model that is rebuilt in full.

Two outcomes, never a third:
- `DeltaJoinError` at once: the text would not mean the same rows twice (`rand()`, `now()`, an
  unknown function, a sample), or is not a query on the declared tables;
- `Unsupported`: deterministic, but not kept incrementally yet (an outer join, an aggregate ...).
  The caller rebuilds in full or refuses, as the mode says.
"""

from __future__ import annotations

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.sql import functions
from deltajoin.sql.dialect import place
from deltajoin.sql.moments import names_a_moment

_UNIT_CALLS = {"date_add", "dateadd", "date_diff", "datediff", "timestampadd", "timestampdiff"}


class Unsupported(Exception):
    """A construct that is rebuilt in full; carries what `DeltaJoinError` needs."""

    def __init__(self, code: str, message: str, node: exp.Expr | None, remedy: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.where = None if node is None else place(node)
        self.remedy = remedy


def check_deterministic(query: exp.Query) -> None:
    """Refuse every expression that could give other rows when computed again.

    Raises:
        DeltaJoinError: NON_DETERMINISTIC, UNKNOWN_FUNCTION, SQL_PARAMETER, each with its line.
    """
    for node in query.walk():
        if isinstance(node, (exp.Placeholder, exp.Parameter, exp.SessionParameter)):
            raise DeltaJoinError(
                "SQL_PARAMETER",
                "the SQL has a parameter without a value",
                where=place(node) or place(query),
                remedy="Write the value as a literal.",
            )
        if isinstance(node, exp.TableSample):
            raise _changing("TABLESAMPLE", node)
        if isinstance(node, exp.Literal) and names_a_moment(node):
            raise _changing(
                f"'{node.this}', which Spark reads as a date or time,",
                node,
                "Write the date out; where the text itself is meant, write concat('...').",
            )
        if isinstance(node, exp.Anonymous) and not isinstance(node.parent, exp.Hint):
            _check_call(node)


def _check_call(call: exp.Anonymous) -> None:
    name = str(call.this).lower()
    qualified = isinstance(call.parent, exp.Dot) and call.parent.expression is call
    if name in functions.NON_DETERMINISTIC or (
        name in ("unix_timestamp", "to_unix_timestamp") and not call.expressions
    ):
        raise _changing(f"{name}()", call)
    known = (
        functions.SCALARS
        | functions.AGGREGATES
        | functions.WINDOW_ONLY
        | functions.GENERATORS
        | {"range"}
    )
    if qualified or name not in known:
        raise DeltaJoinError(
            "UNKNOWN_FUNCTION",
            f"'{name}' is not a built-in Spark function, so nothing proves it deterministic",
            where=place(call) or _near(call),
            remedy="Use built-in functions, or compute the column in a table of its own.",
        )


def check_bare_functions(query: exp.Query) -> None:
    """Refuse `current_date` and the like without parentheses, where no scope tells columns apart.

    Raises:
        DeltaJoinError: NON_DETERMINISTIC, also for an unqualified column of such a name.
    """
    for column in query.find_all(exp.Column):
        name = column.name.lower()
        if (
            len(column.parts) == 1
            and not column.this.args.get("quoted")
            and name in functions.BARE_NON_DETERMINISTIC
        ):
            remedy = "Use a literal; if it is a column, write its table's alias before it."
            raise _changing(name, column, remedy)


def _changing(
    what: str,
    node: exp.Expr,
    remedy: str = "Use a column or a literal; load times belong into the source tables.",
) -> DeltaJoinError:
    return DeltaJoinError(
        "NON_DETERMINISTIC",
        f"{what} gives another result at each run",
        where=place(node) or _near(node),
        remedy=remedy,
    )


def _near(node: exp.Expr) -> str | None:
    parent = node.parent
    while parent is not None:
        if found := place(parent):
            return found
        parent = parent.parent
    return None


def name_units(query: exp.Query) -> None:
    """Turn the unit of `date_diff(DAY, a, b)` from a column into a keyword, in place."""
    for call in query.find_all(exp.Anonymous):
        args = call.expressions
        if str(call.this).lower() in _UNIT_CALLS and len(args) == 3:
            unit = args[0]
            if isinstance(unit, exp.Column) and not unit.table and not unit.this.quoted:
                unit.replace(exp.Var(this=unit.name.upper()))


def check_shape(select: exp.Query, *, layered: bool = False) -> exp.Select:
    """The select itself when it is a select-project-join block, grouped or not; `Unsupported`.

    With `layered`, QUALIFY, WINDOW and LATERAL VIEW may stand in it.
    """
    if isinstance(select, exp.SetOperation):
        raise Unsupported("SET_OPERATION", "set operations", select, _remedy("UNION"))
    if not isinstance(select, exp.Select):
        raise Unsupported("NOT_A_SELECT", type(select).__name__, select, _remedy("this"))
    for argument, code, what in _CLAUSES:
        if layered and argument in _LAYERS:
            continue
        if value := select.args.get(argument):
            node = value[0] if isinstance(value, list) else value
            raise Unsupported(code, what, node if place(node) else select, _remedy(what))
    return select


def check_union(query: exp.SetOperation) -> None:
    """`Unsupported` for INTERSECT and EXCEPT, and for what more may be said of a union."""
    what = type(query).__name__.upper()
    if not isinstance(query, exp.Union):
        raise Unsupported("SET_OPERATION", what, query, _remedy(what))
    if query.args.get("limit") or query.args.get("offset"):
        raise Unsupported("LIMIT", "LIMIT", query, _remedy("LIMIT"))
    known = {"this", "expression", "distinct", "order", "with_"}
    if {name for name, value in query.args.items() if value} - known:
        raise Unsupported("SET_OPERATION", "UNION with more said", query, "Write UNION ALL alone.")


def check_expression(node: exp.Expr, grouped: bool = False) -> None:
    """`Unsupported` for windows, generators and subqueries inside an expression.

    Aggregates too, but for those of a `grouped` select whose result rows alone decide.
    """
    for part in node.walk():
        if isinstance(part, exp.Window):
            raise Unsupported("WINDOW", "a window function", part, _remedy("the window"))
        if isinstance(part, (exp.Query, exp.Exists, exp.Subquery)):
            raise Unsupported("SUBQUERY", "a subquery expression", part, _remedy("the subquery"))
        if isinstance(part, exp.Anonymous):
            name = str(part.this).lower()
            if grouped and name in functions.AGGREGATES - functions.ORDER_DEPENDENT:
                continue
            if name in functions.AGGREGATES or name in functions.WINDOW_ONLY:
                raise Unsupported("AGGREGATE", f"{name}()", part, _remedy("the aggregate"))
            if name in functions.GENERATORS:
                raise Unsupported("GENERATOR", f"{name}()", part, _remedy("the generator"))


def join_kind(join: exp.Join) -> str:
    """inner, left, right, full, semi or anti; `Unsupported` for any other join."""
    side, kind = (join.side or "").upper(), (join.kind or "").upper()
    if (join.method or "").upper() not in ("", "NATURAL") or kind not in _KINDS:
        raise Unsupported("JOIN_KIND", f"{join.method} {kind} JOIN", join, _remedy("this join"))
    if kind in ("SEMI", "ANTI"):
        return kind.lower()
    return side.lower() or "inner"


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


def _remedy(what: str) -> str:
    return f"Use mode 'auto', 'incremental' or 'full' to rebuild, or move {what} downstream."
