"""PIVOT and UNPIVOT -> groups with conditional aggregates, or rows that a generator makes.

    FROM t PIVOT (sum(x) AS s, count(*) AS n FOR k IN (1 AS one, 2))      over the columns i, k, x
    ->  i, sum(x) FILTER (WHERE k <=> 1) AS one_s, count(1) FILTER (WHERE k <=> 1) AS one_n, ...
        FROM t GROUP BY i

    FROM t UNPIVOT (x FOR name IN (a, b AS other))                        over the columns i, a, b
    ->  i, CASE n WHEN 0 THEN 'a' WHEN 1 THEN 'other' END AS name, CASE n WHEN 0 THEN a ... END AS x
        FROM t LATERAL VIEW explode(array(0, 1)) AS n      but for rows of NULLs

What neither aggregates nor FOR read stays. Where all aggregates are numbers, Spark gives NULL for a
value that a group lacks, else what the aggregates give of no rows: so a count needs the types of
those beside it. Caller: makes a source of the result, and binds the names that it gives out.
"""

from __future__ import annotations

from itertools import chain

from sqlglot import exp

from deltajoin.sql.aggregates import aggregate_calls
from deltajoin.sql.columns import bound
from deltajoin.sql.dialect import closed, exchanged, text
from deltajoin.sql.generators import View
from deltajoin.sql.group import Groups, check_grouped, counted
from deltajoin.sql.kinds import INTEGERS, TypeOf, common_kind, kind_of, typed
from deltajoin.sql.nodes import (
    Given,
    Named,
    call,
    chosen,
    function_name,
    is_null,
    number,
    numbered_rows,
)
from deltajoin.sql.refuse import Unsupported
from deltajoin.sql.scalars import NULL_OF_NO_ROWS
from deltajoin.sql.scope import Item, Scope

_PLAIN = frozenset(("string", "boolean", "date", "timestamp", "timestamp_ntz", *INTEGERS))
_NUMBERS = frozenset(("float", "double", "boolean", *INTEGERS))
#: Aggregates that give a number or a boolean, whatever they read.
_COUNTS = frozenset(
    """
    any approx_count_distinct bool_and bool_or corr count count_if every some std stddev stddev_pop
    stddev_samp var_pop var_samp variance
    """.split()
)
_OF_ARGUMENT = frozenset("avg max mean min sum try_avg try_sum".split())
_LISTS = frozenset("array_agg array_sort collect_list collect_set sort_array".split())
_NUMBER = "number"


def pivoted(pivot: exp.Pivot, scope: Scope, type_of: TypeOf) -> tuple[int, Groups]:
    """How many columns stay, and the groups that a PIVOT over the items of a scope makes.

    Raises:
        Unsupported: PIVOT for values that are no literals of the column's type, aggregates without
            a name, of an unknown type; AGGREGATE.
    """
    field = _field(pivot)
    columns = _parts(field.this)
    if any(not isinstance(c, exp.Column) or len(c.parts) > 1 for c in columns):
        raise _stop("FOR of what is no column's name", field, "Compute it in a subquery.")
    read = (node.find_all(exp.Column) for node in (field.this, *pivot.expressions))
    keys = _other_columns(scope, [*chain.from_iterable(read)])
    values = [_value(node, columns, scope, type_of) for node in field.expressions]
    aggregates = [(_alias(node), _aggregate(node, scope)) for node in pivot.expressions]
    several = len(aggregates) > 1
    if several and not all(name for name, _ in aggregates):
        raise _stop("aggregates without a name", pivot, "Name each: sum(x) AS s.")
    null_without_rows = _null_without_rows([node for _, node in aggregates], pivot, type_of)
    made = [
        (f"{value}_{name}" if several else value, _filtered(node, condition, null_without_rows))
        for value, condition in values
        for name, node in aggregates
    ]
    _check_names([name for name, _ in (*keys, *made)], pivot)
    if len({text(condition) for _, condition in values}) < len(values):
        raise _stop("a value that is named twice", field, "Name it once.")
    return len(keys), Groups([value for _, value in keys], [*keys, *made], None)


def unpivoted(
    pivot: exp.Pivot, scope: Scope, type_of: TypeOf, relation: str
) -> tuple[int, list[Given], View, list[exp.Expr]]:
    """How many columns stay, all outputs, what makes their rows, and the filter on them.

    Args:
        relation: what the generated numbers are bound to.

    Raises:
        Unsupported: PIVOT for columns that are not certain to have one type.
    """
    field = _field(pivot)
    sources = [(_column_name(node), _parts(node)) for node in field.expressions]
    read = [c for node in field.expressions for c in node.find_all(exp.Column)]
    if any(_whole_column(c, scope) is not c and len(c.parts) > 1 for c in read):
        raise _stop("UNPIVOT of a field", field, "Make it a column in a subquery.")
    left = _other_columns(scope, read)
    (wanted,) = pivot.expressions
    names = [part.name for part in _parts(wanted)]
    if any(len(columns) != len(names) for _, columns in sources):
        raise _stop("columns that are not as many as their names", pivot, "Name as many.")
    view = View(relation, numbered_rows(len(sources)), False, (_NUMBER,))
    pick = view.column(_NUMBER)
    strings = [exp.Literal.string(name) for name, _ in sources]
    values = [
        chosen(pick, _alike([bound(columns[i], scope) for _, columns in sources], pivot, type_of))
        for i in range(len(names))
    ]
    made = [*left, (field.this.name, chosen(pick, strings)), *zip(names, values, strict=True)]
    _check_names([name for name, _ in made], pivot)
    outputs: list[Given] = [(name, value, pivot) for name, value in made]
    nulls = [is_null(exp.paren(value)) for value in values]
    there = exp.Not(this=exp.paren(exp.and_(*nulls, wrap=False)))
    return len(left), outputs, view, [] if pivot.args.get("include_nulls") else [there]


def apart(pivot: exp.Pivot, below: Scope, outputs: list[Named], stay: int) -> list[Item]:
    """The items of a result without an alias: what stays has the qualifiers that it had.

    Raises:
        Unsupported: PIVOT over columns that USING merged.
    """
    if below.merged:
        raise _stop("PIVOT or UNPIVOT over USING, without an alias,", pivot, "Give it an alias.")
    left = {name.lower(): (name, value) for name, value in outputs[:stay]}
    items = [
        Item(item.qualifiers, {key: left[key] for key in item.columns if key in left})
        for item in below.items
    ]
    return [*items, Item((), {name.lower(): (name, value) for name, value in outputs[stay:]})]


def _field(pivot: exp.Pivot) -> exp.In:
    (field, *more) = pivot.args["fields"]
    if more or not isinstance(field, exp.In) or pivot.alias_column_names:
        raise _stop(text(pivot), pivot, "Write FOR column IN (...) once.")
    return field


def _parts(node: exp.Expr) -> list[exp.Expr]:
    node = node.this if isinstance(node, exp.PivotAlias) else node
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _other_columns(scope: Scope, read: list[exp.Column]) -> list[Named]:
    """The columns of a scope but for those that are read."""
    names = {text(name): name for column in read for name in [_whole_column(column, scope)]}
    return scope.expand_star(exp.Star(except_=list(names.values())))


def _whole_column(column: exp.Column, scope: Scope) -> exp.Column:
    """The column that a name means, also where it means a field of it."""
    scope.resolve(column)
    first = column.parts[0].name.lower()
    qualifier = any((first,) == q[:1] for item in scope.items for q in item.qualifiers)
    return column if qualifier else exp.column(column.parts[0].copy())


def _value(node: exp.Expr, columns: list[exp.Expr], scope: Scope, type_of: TypeOf) -> Named:
    """A value of FOR: the name of its columns, and the condition on a row."""
    parts = _parts(node)
    if len(parts) != len(columns):
        raise _stop("values that are not as many as the columns", node, "Write as many.")
    tests = [
        _test(bound(column, scope), value, type_of)
        for column, value in zip(columns, parts, strict=True)
    ]
    condition = exp.and_(*tests).unnest() if len(tests) > 1 else tests[0]
    return _alias(node) or _shown(parts), condition


def _test(column: exp.Expr, value: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """True for rows whose column is a value, as Spark casts it to the column's type."""
    kind, own = kind_of(column, type_of), kind_of(value, lambda _: "")
    if kind not in _PLAIN and not kind.startswith("decimal("):
        what = f"the column {text(column)}, whose type is {kind or 'not known'},"
        raise _stop(what, value, "CAST the column in a subquery.")
    if own == "null":
        return exp.paren(is_null(closed(column)))
    digits = value.this if isinstance(value, exp.Neg) else value
    literal = isinstance(digits, exp.Cast) and isinstance(digits.this, exp.Literal)
    if not literal and not isinstance(digits, (exp.Literal, exp.Boolean)):
        raise _stop(f"the value {text(value)}, which is no literal,", value, "Write literals.")
    moment = own == "string" and kind in ("date", "timestamp", "timestamp_ntz")
    numbers = own in INTEGERS and (kind in INTEGERS or kind.startswith("decimal("))
    if own != kind and not moment and not numbers:
        raise _stop(f"the value {text(value)} for a {kind}", value, "Write it in that type.")
    wanted = closed(typed(value, kind, own))
    return exp.paren(exp.NullSafeEQ(this=closed(column), expression=wanted))


def _alias(node: exp.Expr) -> str:
    named = isinstance(node, (exp.Alias, exp.PivotAlias))
    return node.args["alias"].name if named else ""


def _shown(parts: list[exp.Expr]) -> str:
    """The name that Spark makes of a value without alias."""
    shown = []
    for node in parts:
        written = text(node)
        simple = written.replace("-", "", 1).isdigit() and str(int(written)) == written
        if isinstance(node, exp.Literal) and node.is_string and written[1:-1] == node.this:
            shown.append(str(node.this))
        elif simple or isinstance(node, (exp.Boolean, exp.Null)):
            shown.append(written.lower())
        else:
            raise _stop(f"the value {written} without a name", node, "Name it: 1.5 AS some.")
    return shown[0] if len(shown) == 1 else "{" + ", ".join(shown) + "}"


def _column_name(node: exp.Expr) -> str:
    name = _alias(node) or "_".join(part.name for part in _parts(node))
    if "\\" in name or "'" in name:
        raise _stop(f"a column that is named {name}", node, "Name it: column AS name.")
    return name


def _aggregate(node: exp.Expr, scope: Scope) -> exp.Expr:
    check_grouped(node.unalias())
    found = bound(counted(node.unalias()), scope)
    known = _COUNTS | _OF_ARGUMENT | _LISTS | NULL_OF_NO_ROWS
    for written in aggregate_calls(found):
        inner = written.node.this if isinstance(written.node, exp.Filter) else written.node
        if function_name(inner) not in known:
            raise _stop(f"PIVOT of {text(inner)}", node, "Write sum(CASE ...) by group.")
    return found


def _null_without_rows(aggregates: list[exp.Expr], pivot: exp.Pivot, type_of: TypeOf) -> bool:
    """True where a value without rows gives NULL, False where it gives what aggregates of no rows
    give; either where that is the same."""
    if all(_is_null_of_no_rows(node) for node in aggregates):
        return False
    numbers = [_gives_number(node, type_of) for node in aggregates]
    if False in numbers:
        return False
    if None in numbers:
        node = aggregates[numbers.index(None)]
        what = f"PIVOT of {text(node)}, whose type is not known, beside a count or computed"
        raise _stop(what, pivot, "CAST what it reads in a subquery.")
    return True


def _is_null_of_no_rows(node: exp.Expr) -> bool:
    return function_name(node.this if isinstance(node, exp.Filter) else node) in NULL_OF_NO_ROWS


def _gives_number(node: exp.Expr, type_of: TypeOf) -> bool | None:
    """Whether an aggregate gives a number or a boolean; None where that is not certain."""
    inner = node.this if isinstance(node, exp.Filter) else node
    name = function_name(inner)
    if name in ("coalesce", "ifnull", "nvl", "nullif"):
        found = {_gives_number(part, type_of) for part in inner.expressions}
        return True if found == {True} else None
    if name in _COUNTS:
        return True
    if name in _LISTS:
        return False
    if isinstance(inner, exp.Literal):
        return not inner.is_string
    if name not in _OF_ARGUMENT or len(inner.expressions) != 1:
        return None
    argument = inner.expressions[0]
    (argument,) = argument.expressions if isinstance(argument, exp.Distinct) else (argument,)
    kind = kind_of(argument, type_of)
    if kind in _NUMBERS or kind.startswith("decimal("):
        return True
    return False if kind and kind != "null" and name in ("max", "min") else None


def _filtered(node: exp.Expr, condition: exp.Expr, null_without_rows: bool) -> exp.Expr:
    """The aggregates of the rows that meet a condition; where there are none NULL, if asked for."""

    def filtered(part: exp.Expr) -> exp.Expr | None:
        first = next(aggregate_calls(part), None)
        if first is None or first.node is not part:
            return None
        where = condition.unnest()
        if isinstance(part, exp.Filter):
            where, part = exp.and_(condition, exp.paren(part.expression.this)), part.this
        return exp.Filter(this=part.copy(), expression=exp.Where(this=where.copy()))

    made = exchanged(node, filtered)
    if not null_without_rows or _is_null_of_no_rows(node):
        return made
    where = exp.Where(this=condition.copy().unnest())
    rows = exp.Filter(this=call("count", number(1)), expression=where)
    return exp.paren(exp.case().when(exp.GT(this=rows, expression=number(0)), made))


def _alike(values: list[exp.Expr], pivot: exp.Pivot, type_of: TypeOf) -> list[exp.Expr]:
    """The expressions in the one type that Spark gives them."""
    kinds = [kind_of(value, type_of) for value in values]
    if len(values) == 1:
        return values
    kind = kinds[0]
    for other in kinds:
        kind = common_kind(kind, other)
    if not kind:
        shown = ", ".join(dict.fromkeys(k or "unknown" for k in kinds))
        raise _stop(f"UNPIVOT of columns of the types {shown}", pivot, "CAST them to one type.")
    return [typed(value, kind, own) for value, own in zip(values, kinds, strict=True)]


def _check_names(names: list[str], pivot: exp.Pivot) -> None:
    if len({name.lower() for name in names}) < len(names) or "" in names:
        raise _stop("columns without a name or of one name", pivot, "Name them apart.")


def _stop(what: str, node: exp.Expr, remedy: str) -> Unsupported:
    return Unsupported("PIVOT", what, node, remedy)
