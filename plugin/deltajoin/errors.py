"""The one error family: a stable code, the place, and what to do about it.

Every refusal and every failure that a user can act on is a `DeltaJoinError`. The code is part of
the public interface (UPPER_SNAKE, listed in `plugin/docs/codes.md`); the message may change.
"""

from __future__ import annotations


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
        self.code = code
        self.message = message
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        place = f" (at {self.where})" if self.where else ""
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{self.code}: {self.message}{place}.{remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.code, self.message, self.where, self.remedy)

    def to_dict(self) -> dict[str, str | None]:
        """The error as plain values, as `--json` prints it."""
        return {
            "code": self.code,
            "message": self.message,
            "where": self.where,
            "remedy": self.remedy,
        }


def _rebuild(code: str, message: str, where: str | None, remedy: str | None) -> DeltaJoinError:
    return DeltaJoinError(code, message, where=where, remedy=remedy)
