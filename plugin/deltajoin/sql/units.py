"""Units of time that stand where a function has its first argument: `date_diff(DAY, a, b)`.

The parser takes such a word for a column. Caller: the parser's own front, so that no plan, view or
statement that is parsed again ever binds a unit as a column.
"""

from __future__ import annotations

from sqlglot import exp

_CALLS = frozenset(
    "date_add dateadd date_diff datediff timestampadd timestampdiff timediff".split()
)
_UNITS = frozenset(
    "year quarter month week day dayofyear hour minute second millisecond microsecond".split()
)


def name_units(tree: exp.Expr) -> None:
    """Turn the unit of a call with three arguments from a column into a keyword, in place."""
    for call in tree.find_all(exp.Anonymous):
        args = call.expressions
        if str(call.this).lower() in _CALLS and len(args) == 3:
            unit = args[0]
            if isinstance(unit, exp.Column) and _is_unit(unit):
                unit.replace(exp.Var(this=unit.name))


def _is_unit(column: exp.Column) -> bool:
    bare = len(column.parts) == 1 and not column.this.args.get("quoted")
    return bare and column.name.lower() in _UNITS
