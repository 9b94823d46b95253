"""The one config key `deltajoin:` of a model, read strictly.

    {{ config(materialized='delta_join', deltajoin={'keys': {'flights': ['id']}, 'mode': 'auto'}) }}

An option that is not known, or not of its type, is refused: a misspelt `mdoe: full` must not pass
as `auto`. Relations are named as the user knows them; `keys.py` and `references.py` resolve them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Any

from deltajoin.errors import DeltaJoinError
from deltajoin.model import DETERMINISTIC, MODES, PLANNING
from deltajoin.planner.solver import STRATEGIES, parse_strategy

_KNOWN = ("keys", "mode", *PLANNING, "storage_options")


@dataclass(frozen=True)
class Options:
    """A model's options, as `Model` has them; keys and references are pairs."""

    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    mode: str = "auto"
    references: tuple[tuple[str, str], ...] = ()
    hints: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    strategy: str = "cost"
    reorder: bool = True
    order: tuple[str, ...] = ()
    sketches: bool = False
    functions: Mapping[str, str] = field(default_factory=dict)
    stamps: tuple[str, ...] = ()
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_options(config: Any, where: str) -> Options:
    """The options in a model's `deltajoin` config; `where` names the model in errors.

    Example:
        >>> read_options({"keys": {"flights": "id"}}, "model m").keys
        (('flights', ('id',)),)
        >>> read_options({"mdoe": "full"}, "model m")
        Traceback (most recent call last):
        ...
        deltajoin.errors.DeltaJoinError: UNKNOWN_OPTION: 'mdoe' is not a deltajoin option (at model m). Did you mean 'mode'? Known options: keys, mode, references, hints, strategy, reorder, order, sketches, functions, stamps, storage_options.
    """  # noqa: E501
    if config is None or config == "":
        return Options()
    if not isinstance(config, Mapping):
        raise _invalid(
            f"the config 'deltajoin' is {_kind(config)}, not a mapping",
            where,
            "Write it as deltajoin: {keys: {relation: [column]}, mode: auto}.",
        )
    for option in config:
        if option not in _KNOWN:
            near = get_close_matches(str(option), _KNOWN, n=1)
            hint = f"Did you mean '{near[0]}'? " if near else ""
            raise DeltaJoinError(
                "UNKNOWN_OPTION",
                f"'{option}' is not a deltajoin option",
                where=where,
                remedy=f"{hint}Known options: {', '.join(_KNOWN)}.",
            )
    given = {name: value for name, value in config.items() if value is not None}
    read: dict[str, Callable[[Any, str], Any]] = {
        "keys": _read_keys,
        "mode": _read_mode,
        "references": _read_references,
        "hints": _read_hints,
        "strategy": _read_strategy,
        "reorder": partial(_read_switch, "reorder"),
        "order": _read_order,
        "sketches": partial(_read_switch, "sketches"),
        "functions": _read_functions,
        "stamps": partial(_read_columns, "stamps"),
        "storage_options": _read_storage,
    }
    return Options(**{name: read[name](value, where) for name, value in given.items()})


def layout_of(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Partitions, clusters and properties of a model's table, which dbt names beside `deltajoin`.

    Example:
        >>> layout_of({"partition_by": "day", "tblproperties": {"a.b": True}}, "model m")
        {'partition_by': ('day',), 'tblproperties': {'a.b': 'true'}}
    """
    found: dict[str, Any] = {}
    for option in ("partition_by", "clustered_by", "liquid_clustered_by"):
        if names := config.get(option):
            found[option.removeprefix("liquid_")] = _read_columns(option, names, where)
    properties = config.get("tblproperties") or {}
    if not isinstance(properties, Mapping):
        raise _invalid("tblproperties is no mapping", where, "Write it as {name: value}.")
    if properties:
        found["tblproperties"] = {str(k): _as_property(v) for k, v in properties.items()}
    return found


def _as_property(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_mode(mode: Any, where: str) -> str:
    if mode not in MODES:
        raise _invalid(f"mode is {mode!r}", where, f"Use one of: {', '.join(MODES)}.")
    return str(mode)


def _read_keys(keys: Any, where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    remedy = "Write keys as {relation: [column, ...]}."
    if not isinstance(keys, Mapping):
        raise _invalid(f"keys is {_kind(keys)}, not a mapping", where, remedy)
    read = []
    for relation, columns in keys.items():
        names = (columns,) if isinstance(columns, str) else columns
        if not _are_names(names):
            raise _invalid(f"keys of '{relation}' are not a list of column names", where, remedy)
        read.append((str(relation), tuple(names)))
    return tuple(read)


def _read_references(references: Any, where: str) -> tuple[tuple[str, str], ...]:
    remedy = "Write references as {relation.column: relation.column}."
    if not isinstance(references, Mapping):
        raise _invalid(f"references is {_kind(references)}, not a mapping", where, remedy)
    for one, other in references.items():
        if not _are_names([one, other]):
            raise _invalid(f"references: '{one}' is not given a column", where, remedy)
    return tuple(references.items())


def _read_hints(hints: Any, where: str) -> Mapping[str, Mapping[str, float]]:
    remedy = "Write hints as {rows: {relation: number}, distinct: {relation.column: number}}."
    if not isinstance(hints, Mapping):
        raise _invalid(f"hints is {_kind(hints)}, not a mapping", where, remedy)
    for kind, figures in hints.items():
        if kind not in ("rows", "distinct") or not isinstance(figures, Mapping):
            raise _invalid(f"hints: '{kind}' is not a mapping of rows or distinct", where, remedy)
        for name, figure in figures.items():
            count = isinstance(figure, int | float) and not isinstance(figure, bool)
            if not _are_names([name]) or not (count and figure >= 0):
                raise _invalid(f"hints: '{name}' has {figure!r}, which is no count", where, remedy)
    return {str(kind): dict(figures) for kind, figures in hints.items()}


def _read_strategy(strategy: Any, where: str) -> str:
    remedy = "Use one of: " + "; ".join(each.name for each in STRATEGIES) + "."
    if not isinstance(strategy, str):
        raise _invalid(f"strategy is {_kind(strategy)}, not a text", where, remedy)
    try:
        return parse_strategy(strategy).name
    except DeltaJoinError as error:
        raise _invalid(f"strategy is {strategy!r}", where, remedy) from error


def _read_switch(name: str, value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _invalid(f"{name} is {value!r}", where, "Use true or false.")
    return value


def _read_columns(name: str, value: Any, where: str) -> tuple[str, ...]:
    columns = [value] if isinstance(value, str) else value
    if not _are_names(columns):
        remedy = f"Write {name} as [column, ...]."
        raise _invalid(f"{name} is {value!r}, not a list of output columns", where, remedy)
    return tuple(columns)


def _read_functions(functions: Any, where: str) -> Mapping[str, str]:
    if not isinstance(functions, Mapping) or set(functions.values()) - {DETERMINISTIC}:
        remedy = f"Write functions as {{name: {DETERMINISTIC}}}."
        raise _invalid(f"functions is {functions!r}", where, remedy)
    return {str(name): DETERMINISTIC for name in functions}


def _read_storage(options: Any, where: str) -> Mapping[str, str]:
    if not isinstance(options, Mapping):  # its value may be secret
        remedy = "Write storage_options as {NAME: value}."
        raise _invalid(f"storage_options is {_kind(options)}, not a mapping", where, remedy)
    return {str(name): _as_property(value) for name, value in options.items()}


def _read_order(order: Any, where: str) -> tuple[str, ...]:
    if not _are_names(order):
        remedy = "Write order as [alias, alias, ...]."
        raise _invalid(f"order is {order!r}, not a list of relations", where, remedy)
    return tuple(order)


def _are_names(names: Any) -> bool:
    return (
        isinstance(names, list | tuple)
        and bool(names)
        and all(isinstance(name, str) and name.strip() for name in names)
    )


def _invalid(message: str, where: str, remedy: str) -> DeltaJoinError:
    return DeltaJoinError("INVALID_OPTION", message, where=where, remedy=remedy)


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
