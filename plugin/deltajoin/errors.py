"""The one error family: a stable code, what, the place, and what to do about it.

A `Refusal` says why something is not done. It is a value: a plan holds that which stands against
keeping a query, explain prints it. Every one that ends a run is raised as a `DeltaJoinError`. The
code is part of the public interface (UPPER_SNAKE, listed in `plugin/docs/codes.md`); the message
may change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Refusal:
    """Why something is not done: code, message, place, remedy."""

    code: str
    message: str
    where: str | None = None
    remedy: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """The refusal as plain values, as `--json` prints it."""
        return asdict(self)


class DeltaJoinError(Exception):
    """A refusal or failure with a code, a place and a remedy.

    Example:
        >>> str(DeltaJoinError("UNKNOWN_TABLE", "no source", where="line 2", remedy="Add it."))
        'UNKNOWN_TABLE: no source (at line 2). Add it.'
        >>> DeltaJoinError("LIMIT", "LIMIT is not kept").to_dict()["where"] is None
        True
    """

    def __init__(
        self, code: str, message: str, *, where: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(code, message, where, remedy)
        self.code, self.message, self.where, self.remedy = code, message, where, remedy

    @classmethod
    def of(cls, refusal: Refusal) -> DeltaJoinError:
        """The error that ends a run because of a refusal."""
        return DeltaJoinError(
            refusal.code, refusal.message, where=refusal.where, remedy=refusal.remedy
        )

    @property
    def refusal(self) -> Refusal:
        """What the error says, as a value; made anew, for secrets are taken out of an error."""
        return Refusal(self.code, self.message, self.where, self.remedy)

    def __str__(self) -> str:
        place = f" (at {self.where})" if self.where else ""
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{self.code}: {self.message}{place}.{remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        return DeltaJoinError.of, (self.refusal,)

    def to_dict(self) -> dict[str, str | None]:
        """The error as plain values, as `--json` prints it."""
        return self.refusal.to_dict()


@contextmanager
def reworded(change: Callable[[Refusal], Refusal]) -> Iterator[None]:
    """Raise errors as refusals that say more of the place."""
    try:
        yield
    except DeltaJoinError as error:
        found = change(error.refusal)
        if found == error.refusal:
            raise
        raise DeltaJoinError.of(found) from error
