"""How plans and commits are written down, and what identifies them. Nothing here imports a parser:
a run with nothing to do is found by these alone.

A plan is made of frozen dataclasses. Written down, each is a mapping of its fields, but for those
that take no part in a comparison, and for those of few plans (`SELDOM`) at their default.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from deltajoin.contract import FORMAT
from deltajoin.model import Model

#: Version of the rules that decide which rows a query has. One that is mended so that rows may
#: differ raises it: a target that was built by another version is rebuilt once (RULES_CHANGED).
#:
#:     1   expressions run as they were written: brackets, casts, intervals, operators, clauses
#:     2   -0.0, NaN and collations through groups, windows, unions, keys and derived sources
#:     3   a field of a column that USING merged, beside a table of the column's name
#:     4   `*` in aggregates, parameters of lambdas, comparisons in a row, comments that go on, IN
#:         of text, names in QUALIFY; ranges through columns of one type, digits of whole numbers
#:     5   CHAR beside set operations and the like; files of empty folders, hidden names and numbers
#:         without a sign; TIMESTAMP of files; compaction of what came; targets that become bags
#:     6   the change of tables that delta-rs has updated
RULES = 6


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces.

    Example:
        >>> canonical_json({"b": 1, "a": (2, "é")})
        '{"a":[2,"é"],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


#: Metadata of a field that is left out where it says nothing.
SELDOM = {"seldom": True}


def plain(value: Any) -> Any:
    """A value of a plan as JSON has it; a class may have a form of its own, `to_dict`."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return fields_of(value)
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    return value.isoformat() if isinstance(value, datetime) else value


def fields_of(value: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a dataclass as plain values."""
    found = {}
    for each in fields(value):
        part = getattr(value, each.name)
        says_nothing = "seldom" in each.metadata and part in (each.default, {})
        if each.compare and each.name not in without and not says_nothing:
            found[each.name] = plain(part)
    return found


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def model_hash(model: Model) -> str:
    """Identity of a model as it is declared, under our rules: equal text, tables and options."""
    return digest({"format": FORMAT, "rules": RULES, "model": model.to_dict()})


def noop_hash(model: str, epoch: int, fingerprint: str, frontier: Mapping[str, Any]) -> str:
    """Identity of the finding that a model's sources stand where its last epoch read them."""
    return digest({"model": model, "epoch": epoch, "meaning": fingerprint, "frontier": frontier})
