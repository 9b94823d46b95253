"""How object stores are reached: options by delta-rs's names, in force while an entry point works.

Rule: whoever is given a model works inside `storage(model.storage_options)`. All that is opened
there under a location with a scheme gets these options, and the run's Spark session gets them by
Hadoop's names (`runtime/object_store.py`). They hold for the thread that set them alone, so threads
may work on different models. Nothing else holds them: no plan, hash, job, ledger or record.

A value `${NAME}` is taken from the environment when it is used. What fails inside leaves without
the values of secrets, in its causes too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from deltajoin.errors import DeltaJoinError

_in_force: ContextVar[Mapping[str, str] | None] = ContextVar("storage_options", default=None)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SECRET = re.compile(r"key|secret|password|token|sas|credential|signature", re.IGNORECASE)
#: Shorter values are taken for no secrets: words of every message would go with them.
_LEAST = 4
HIDDEN = "***"


@contextmanager
def storage(options: Mapping[str, str]) -> Iterator[None]:
    """Put options in force; without any, those around stay.

    Raises:
        DeltaJoinError: STORAGE_OPTION_UNSET where a value names a variable that is not set.

    Example:
        >>> with storage({"AWS_REGION": "eu-west-1"}):
        ...     options_of("s3://lake/orders"), options_of("/lake/orders")
        ({'AWS_REGION': 'eu-west-1'}, None)
        >>> options_of("s3://lake/orders") is None
        True
    """
    if not options:
        yield
        return
    values = {name: _value(name, text) for name, text in options.items()}
    before = _in_force.set(values)
    try:
        yield
    except Exception as failure:
        hide(failure, values)
        raise
    finally:
        _in_force.reset(before)


def options_in_force() -> dict[str, str]:
    """The options of the innermost `storage`; none outside."""
    return dict(_in_force.get() or {})


def options_of(location: str) -> dict[str, str] | None:
    """What a location is opened with: nothing for a local one."""
    return options_in_force() or None if "://" in location else None


def hide(failure: BaseException, options: Mapping[str, str]) -> None:
    """Take the values of secret options out of an exception, its causes and their notes."""
    named = (value for name, value in options.items() if _SECRET.search(name))
    secrets = sorted((v for v in named if len(v) >= _LEAST), key=len, reverse=True)
    seen: set[int] = set()
    open_ = [failure]
    while secrets and open_:
        one = open_.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        one.args = tuple(_without(part, secrets) for part in one.args)
        vars(one).update({name: _without(part, secrets) for name, part in vars(one).items()})
        open_ += [other for other in (one.__cause__, one.__context__) if other is not None]


def _without(part: object, secrets: list[str]) -> object:
    if isinstance(part, list):
        return [_without(one, secrets) for one in part]
    if isinstance(part, str):
        for secret in secrets:
            part = part.replace(secret, HIDDEN)
    return part


def _value(name: str, text: str) -> str:
    match = _VARIABLE.fullmatch(text)
    if match is None:
        return text
    if match[1] not in os.environ:
        raise DeltaJoinError(
            "STORAGE_OPTION_UNSET",
            f"the environment has no variable '{match[1]}'",
            where=f"storage option {name}",
            remedy="Set it where the model is planned and run.",
        )
    return os.environ[match[1]]
