"""Words that the parser takes for columns: units of time, and names of collations.

    date_diff(DAY, a, b)                    a unit where a function has its first argument
    CAST(a AS STRING COLLATE UTF8_LCASE)    a type's collation

Caller: the parser's own front, so that no plan, view or statement that is parsed again ever binds
such a word as a column.
"""

from __future__ import annotations

from sqlglot import exp

_CALLS = frozenset(
    "date_add dateadd date_diff datediff timestampadd timestampdiff timediff".split()
)
_UNITS = frozenset(
    "year quarter month week day dayofyear hour minute second millisecond microsecond".split()
)


def name_words(tree: exp.Expr) -> None:
    """Turn units of calls with three arguments, and collations, from columns into keywords."""
    for kind in tree.find_all(exp.DataType):
        if isinstance(collation := kind.args.get("collate"), exp.Column):
            collation.replace(exp.Var(this=collation.name))
    for call in tree.find_all(exp.Anonymous):
        args = call.expressions
        if str(call.this).lower() in _CALLS and len(args) == 3:
            unit = args[0]
            if isinstance(unit, exp.Column) and _is_unit(unit):
                unit.replace(exp.Var(this=unit.name))


def _is_unit(column: exp.Column) -> bool:
    bare = len(column.parts) == 1 and not column.this.args.get("quoted")
    return bare and column.name.lower() in _UNITS
