"""Computed values that Spark can't compare, so that rows with them can't be consolidated.

A variant, a map, a string with a collation, and an interval of months and days together, are made
by few calls and casts; what takes one and gives something else (`variant_get(v, '$.a', 'int')`, a
cast, a comparison, `m['a']`) ends it. What else is done with one counts as one.

Example:
    >>> from deltajoin.sql.dialect import parse_expression
    >>> gives_ungroupable(parse_expression("coalesce(parse_json(t.j), t.v)"))
    True
    >>> gives_ungroupable(parse_expression("parse_json(t.j):a::int + 1"))
    False
    >>> gives_ungroupable(parse_expression("map('a', t.x)['a']"))
    False
    >>> gives_ungroupable(parse_expression("from_json(t.j, 'a map<string, int>').a"))
    True
    >>> gives_ungroupable(parse_expression("upper(t.name COLLATE UTF8_LCASE)"))
    True
"""

from __future__ import annotations

from sqlglot import exp

from deltajoin.sql.nodes import function_name

_MAPS = frozenset(
    """
    map map_concat map_filter map_from_arrays map_from_entries map_zip_with str_to_map
    transform_keys transform_values
    """.split()
)
_MAKERS = _MAPS | frozenset(
    "collate make_interval parse_json to_variant_object try_make_interval try_parse_json".split()
)
_READERS = frozenset({"variant_get", "try_variant_get"})
_PARSERS = frozenset({"from_avro", "from_csv", "from_json", "from_xml"})
_WORDS = ("map<", "variant", "interval")
_TAKERS = frozenset(
    """
    approx_count_distinct count count_if hash is_variant_null isnotnull isnull schema_of_variant
    to_json typeof xxhash64
    """.split()
)
_OF_MAPS = frozenset(
    """
    cardinality element_at map_contains_key map_entries map_keys map_values size try_element_at
    """.split()
)


def gives_ungroupable(node: exp.Expr) -> bool:
    """True unless every such value inside an expression is made into another."""
    return any(_is_made(part) and not _is_taken(part) for part in node.walk())


def _is_made(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast):
        return any(_is_kind(kind) for kind in node.to.find_all(exp.DataType))
    name = function_name(node)
    if name in _READERS:
        return not _reads_plain(node)
    if name in _PARSERS:
        return any(_names(node, word) for word in _WORDS)
    return name in _MAKERS or isinstance(node, (exp.Collate, exp.JSONExtract))


def _is_kind(kind: exp.DataType) -> bool:
    kinds = (exp.DType.VARIANT, exp.DType.INTERVAL, exp.DType.MAP)
    return kind.this in kinds or bool(kind.args.get("collate"))


def _is_taken(node: exp.Expr) -> bool:
    is_map = _is_map(node)
    while (parent := node.parent) is not None:
        if is_map and _is_map(parent):
            return False
        name = function_name(parent)
        if is_map and (
            name in _OF_MAPS or (isinstance(parent, exp.Bracket) and parent.this is node)
        ):
            return True
        if isinstance(parent, exp.Cast) and not _is_made(parent):
            return True
        if isinstance(parent, (exp.Is, exp.Predicate)) or name in _TAKERS:
            return True
        if name in _READERS and _reads_plain(parent):
            return True
        node = parent
    return False


def _is_map(node: exp.Expr) -> bool:
    name = function_name(node)
    return name in _MAPS or (name in _PARSERS and _names(node, "map<"))


def _names(call: exp.Expr, word: str) -> bool:
    """True where a text among the arguments names such a type."""
    texts = (part for part in call.expressions if isinstance(part, exp.Literal) and part.is_string)
    return any(word in str(text.this).lower() for text in texts)


def _reads_plain(call: exp.Expr) -> bool:
    kind = call.expressions[2] if len(call.expressions) > 2 else None
    if not isinstance(kind, exp.Literal) or not kind.is_string:
        return False
    return not any(word in str(kind.this).lower() for word in _WORDS)
