"""Small constructors and readers of expressions while they are bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from deltajoin.sql.dialect import closed

#: What is given out: its name, and what it is; in the second also where it is written.
Named = tuple[str, exp.Expr]
Given = tuple[str, exp.Expr, exp.Expr]
#: What may stand around an aggregate's call.
AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def column(name: str, relation: str) -> exp.Column:
    """A column of a relation, in backticks."""
    return exp.column(name, table=relation, quoted=True)


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A function call as Spark reads it."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def number(value: int) -> exp.Expr:
    """A number literal."""
    return exp.Literal.number(value)


def is_null(node: exp.Expr) -> exp.Is:
    """`node IS NULL`."""
    return exp.Is(this=node, expression=exp.Null())


def is_not_null(node: exp.Expr) -> exp.Not:
    """`NOT node IS NULL`."""
    return exp.Not(this=is_null(node))


def chosen(pick: exp.Expr, values: Iterable[exp.Expr]) -> exp.Case:
    """One of some values, by its number from 0 on."""
    case = exp.Case(this=pick.copy())
    for i, value in enumerate(values):
        case = case.when(number(i), closed(value))
    return case


def numbered_rows(count: int) -> exp.Anonymous:
    """The generator of the numbers from 0 on."""
    return call("explode", call("array", *map(number, range(count))))


def function_name(node: object) -> str:
    """The name of the function that a node calls, in lower case; empty where it is no call."""
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    """What stands around a node, the nearest first."""
    while node.parent is not None:
        node = node.parent
        yield node


def bare_call(node: exp.Expr) -> exp.Expr:
    """A call without FILTER, WITHIN GROUP and IGNORE NULLS around it."""
    while isinstance(node, AROUND):
        node = node.this
    return node


def results(choice: exp.Expr) -> list[exp.Expr]:
    """The values that an IF or a CASE chooses from."""
    found = [branch.args["true"] for branch in choice.args.get("ifs") or [choice]]
    last = choice.args.get("default") or choice.args.get("false")
    return [*found, last] if last is not None else found


def counts_rows(call: exp.Expr) -> bool:
    """True for `count(*)`: elsewhere `*` stands for columns, also in `count(* EXCEPT (k))`."""
    arguments = call.expressions if function_name(call) == "count" else []
    star = arguments[0] if len(arguments) == 1 else None
    return isinstance(star, exp.Star) and not any(star.args.values())


def connected(node: exp.Expr, kind: type[exp.Connector]) -> list[exp.Expr]:
    """The parts of nested connectors of one kind, left to right."""
    waiting, found = [node], []
    while waiting:
        part = waiting.pop()
        bare = part.unnest()
        if isinstance(bare, kind):
            waiting += [bare.expression, bare.this]
        else:
            found.append(part)
    return found


def is_star(node: exp.Expr) -> bool:
    """True for an entry `*` or `t.*` of a SELECT list."""
    return node.is_star and isinstance(node, (exp.Star, exp.Column))


def own_name(node: exp.Expr) -> str:
    """The name of an entry of a SELECT list; empty where Spark makes one up."""
    if isinstance(node, exp.Alias):
        return node.alias
    if isinstance(node, exp.Column):
        return node.name
    inner = node
    while isinstance(inner, (exp.Dot, exp.Paren)):
        inner = inner.this
    is_field = isinstance(node, exp.Dot) and isinstance(inner, exp.Column)
    return node.expression.name if is_field else ""
