"""The one config key `deltajoin:` of a model, read strictly.

    {{ config(materialized='delta_join', deltajoin={'keys': {'flights': ['id']}, 'mode': 'auto'}) }}

An option that is not known, or not of its type, is refused: a misspelt `mdoe: full` must not pass
as `auto`. Relations are named as the user knows them; `keys.py` and `references.py` resolve them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from deltajoin.errors import DeltaJoinError
from deltajoin.model import DETERMINISTIC, MODES
from deltajoin.planner.solver import STRATEGIES, parse_strategy


def read_options(config: Any, where: str) -> dict[str, Any]:
    """The options in a model's `deltajoin` config, by the fields of `Model`; keys are tuples.

    `where` names the model in errors.

    Example:
        >>> read_options({"keys": {"flights": "id"}}, "model m")
        {'keys': {'flights': ('id',)}}
        >>> read_options({"mdoe": "full"}, "model m")
        Traceback (most recent call last):
        ...
        deltajoin.errors.DeltaJoinError: UNKNOWN_OPTION: 'mdoe' is not a deltajoin option (at model m). Did you mean 'mode'? Known options: keys, mode, references, hints, strategy, reorder, order, sketches, functions, stamps, storage_options.
    """  # noqa: E501
    if config is None or config == "":
        return {}
    if not isinstance(config, Mapping):
        raise _invalid(
            f"the config 'deltajoin' is {_kind(config)}, not a mapping",
            where,
            "Write it as deltajoin: {keys: {relation: [column]}, mode: auto}.",
        )
    for option in config:
        if option not in _READINGS:
            near = get_close_matches(str(option), _READINGS, n=1)
            hint = f"Did you mean '{near[0]}'? " if near else ""
            raise DeltaJoinError(
                "UNKNOWN_OPTION",
                f"'{option}' is not a deltajoin option",
                where=where,
                remedy=f"{hint}Known options: {', '.join(_READINGS)}.",
            )
    return {
        name: _read(name, value, _READINGS[name], where)
        for name, value in config.items()
        if value is not None
    }


def layout_of(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Partitions, clusters and properties of a model's table, which dbt names beside `deltajoin`.

    Example:
        >>> layout_of({"partition_by": "day", "tblproperties": {"a.b": True}}, "model m")
        {'partition_by': ('day',), 'tblproperties': {'a.b': 'true'}}
    """
    found: dict[str, Any] = {}
    for option in ("partition_by", "clustered_by", "liquid_clustered_by"):
        if names := config.get(option):
            found[option.removeprefix("liquid_")] = _read(option, names, _COLUMNS, where)
    properties = config.get("tblproperties") or {}
    if not isinstance(properties, Mapping):
        raise _invalid("tblproperties is no mapping", where, "Write it as {name: value}.")
    return {**found, "tblproperties": _texts(properties)} if properties else found


# how the value of an option is read: as `Model` has it, or refused with a ValueError --------------


def _keys(name: str, keys: Any) -> dict[str, tuple[str, ...]]:
    for relation, columns in _mapping(name, keys).items():
        if not _are_names(_listed(columns)):
            raise ValueError(f"keys of '{relation}' are not a list of column names")
    return {str(relation): tuple(_listed(columns)) for relation, columns in keys.items()}


def _references(name: str, references: Any) -> dict[str, str]:
    for one, other in _mapping(name, references).items():
        if not _are_names([one, other]):
            raise ValueError(f"references: '{one}' is not given a column")
    return dict(references)


def _hints(name: str, hints: Any) -> dict[str, dict[str, float]]:
    for kind, figures in _mapping(name, hints).items():
        if kind not in ("rows", "distinct") or not isinstance(figures, Mapping):
            raise ValueError(f"hints: '{kind}' is not a mapping of rows or distinct")
        for of, figure in figures.items():
            count = isinstance(figure, int | float) and not isinstance(figure, bool)
            if not _are_names([of]) or not (count and figure >= 0):
                raise ValueError(f"hints: '{of}' has {figure!r}, which is no count")
    return {str(kind): dict(figures) for kind, figures in hints.items()}


def _strategy(name: str, strategy: Any) -> str:
    if not isinstance(strategy, str):
        raise ValueError(f"{name} is {_kind(strategy)}, not a text")
    try:
        return parse_strategy(strategy).name
    except DeltaJoinError as error:
        raise ValueError(f"{name} is {strategy!r}") from error


def _storage_options(name: str, options: Any) -> dict[str, str]:
    return _texts(_mapping(name, options))


def _mapping(name: str, value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):  # the value may be secret
        raise ValueError(f"{name} is {_kind(value)}, not a mapping")
    return value


def _where(
    holds: Callable[[Any], bool],
    otherwise: str = "",
    read: Callable[[Any], Any] = lambda value: value,
) -> Callable[[str, Any], Any]:
    """Read what holds; the refusal shows another value and says what it is not."""

    def checked(name: str, value: Any) -> Any:
        if not holds(value):
            raise ValueError(f"{name} is {value!r}{otherwise}")
        return read(value)

    return checked


def _texts(options: Mapping[Any, Any]) -> dict[str, str]:
    """Names and values as texts, as Spark and Delta write them."""
    return {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}


def _listed(names: Any) -> Any:
    return [names] if isinstance(names, str) else names


def _are_names(names: Any) -> bool:
    listed = isinstance(names, list | tuple) and bool(names)
    return listed and all(isinstance(name, str) and name.strip() for name in names)


def _are_functions(functions: Any) -> bool:
    return isinstance(functions, Mapping) and set(functions.values()) <= {DETERMINISTIC}


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


_Reading = tuple[Callable[[str, Any], Any], str]
_SWITCH: _Reading = (_where(lambda value: isinstance(value, bool)), "Use true or false.")
_COLUMNS: _Reading = (
    _where(
        lambda value: _are_names(_listed(value)),
        ", not a list of output columns",
        lambda value: tuple(_listed(value)),
    ),
    "Write {} as [column, ...].",
)
#: Option -> how its value is read, and the remedy for a wrong one; {} is the option's name.
_READINGS: dict[str, _Reading] = {
    "keys": (_keys, "Write {} as {{relation: [column, ...]}}."),
    "mode": (_where(lambda mode: mode in MODES), f"Use one of: {', '.join(MODES)}."),
    "references": (_references, "Write {} as {{relation.column: relation.column}}."),
    "hints": (
        _hints,
        "Write {} as {{rows: {{relation: number}}, distinct: {{relation.column: number}}}}.",
    ),
    "strategy": (_strategy, f"Use one of: {'; '.join(each.name for each in STRATEGIES)}."),
    "reorder": _SWITCH,
    "order": (
        _where(_are_names, ", not a list of relations", tuple),
        "Write {} as [alias, alias, ...].",
    ),
    "sketches": _SWITCH,
    "functions": (_where(_are_functions, read=dict), "Write {} as {{name: deterministic}}."),
    "stamps": _COLUMNS,
    "storage_options": (_storage_options, "Write {} as {{NAME: value}}."),
}


def _read(name: str, value: Any, reading: _Reading, where: str) -> Any:
    read, remedy = reading
    try:
        return read(name, value)
    except ValueError as error:
        raise _invalid(str(error), where, remedy.format(name)) from error


def _invalid(message: str, where: str, remedy: str) -> DeltaJoinError:
    return DeltaJoinError("INVALID_OPTION", message, where=where, remedy=remedy)
