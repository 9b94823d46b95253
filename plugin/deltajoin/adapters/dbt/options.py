"""The one config key `deltajoin:` of a model, read strictly.

    {{ config(materialized='delta_join', deltajoin={'keys': {'flights': ['id']}, 'mode': 'auto'}) }}

An option that is not known, or not of its type, is refused: a misspelt `mdoe: full` must not pass
as `auto`. Relations in `keys` are named as the user knows them; `keys.py` resolves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from deltajoin.errors import DeltaJoinError
from deltajoin.model import MODES

_KNOWN = ("keys", "mode")


@dataclass(frozen=True)
class Options:
    """A model's options: declared keys as (relation, columns) pairs, and the mode."""

    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    mode: str = "auto"


def read_options(config: Any, where: str) -> Options:
    """The options in a model's `deltajoin` config; `where` names the model in errors.

    Example:
        >>> read_options({"keys": {"flights": "id"}}, "model m")
        Options(keys=(('flights', ('id',)),), mode='auto')
        >>> read_options({"mdoe": "full"}, "model m")
        Traceback (most recent call last):
        ...
        deltajoin.errors.DeltaJoinError: UNKNOWN_OPTION: 'mdoe' is not a deltajoin option (at model m). Did you mean 'mode'? Known options: keys, mode.
    """  # noqa: E501
    if config is None or config == "":
        return Options()
    if not isinstance(config, Mapping):
        raise DeltaJoinError(
            "INVALID_OPTION",
            f"the config 'deltajoin' is {_kind(config)}, not a mapping",
            where=where,
            remedy="Write it as deltajoin: {keys: {relation: [column]}, mode: auto}.",
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
    return Options(
        keys=_read_keys(config.get("keys"), where), mode=_read_mode(config.get("mode"), where)
    )


def _read_mode(mode: Any, where: str) -> str:
    if mode is None:
        return "auto"
    if mode not in MODES:
        raise DeltaJoinError(
            "INVALID_OPTION",
            f"mode is {mode!r}",
            where=where,
            remedy=f"Use one of: {', '.join(MODES)}.",
        )
    return str(mode)


def _read_keys(keys: Any, where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if keys is None:
        return ()
    if not isinstance(keys, Mapping):
        raise _bad_keys(f"keys is {_kind(keys)}, not a mapping", where)
    read = []
    for relation, columns in keys.items():
        names = (columns,) if isinstance(columns, str) else columns
        if (
            not isinstance(names, list | tuple)
            or not names
            or not all(isinstance(name, str) and name for name in names)
        ):
            raise _bad_keys(f"keys of '{relation}' are not a list of column names", where)
        read.append((str(relation), tuple(names)))
    return tuple(read)


def _bad_keys(message: str, where: str) -> DeltaJoinError:
    return DeltaJoinError(
        "INVALID_OPTION",
        message,
        where=where,
        remedy="Write keys as {relation: [column, ...]}.",
    )


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
