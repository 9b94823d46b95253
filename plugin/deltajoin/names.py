"""The one place that quotes and checks names.

Rule: a name that reaches SQL goes through `quote`; a name or text that could be substituted by
Spark (`${...}`), cut a C string (NUL) or overflow a catalog is refused before anything is planned.
"""

from __future__ import annotations

import re

from deltajoin.errors import DeltaJoinError

MAX_NAME_BYTES = 255
MAX_SQL_BYTES = 1_000_000
RESERVED_PREFIX = "__deltajoin_"
WEIGHT = "__deltajoin_weight"
COUNT = "__deltajoin_count"
#: A hash of a bag's row, by which it is found.
ROW_HASH = "__deltajoin_hash"
OPERATION = "__deltajoin_operation"
PATH = "__deltajoin_path"
#: Hidden columns of grouped targets: rows of a group, whether HAVING shows it, the key of a total.
ROWS = "__deltajoin_rows"
SHOWN = "__deltajoin_shown"
TOTAL = "__deltajoin_total"


def quote(name: str) -> str:
    """A Spark identifier in backticks.

    Example:
        >>> quote("a`b.c")
        '`a``b.c`'
    """
    return "`" + name.replace("`", "``") + "`"


def quote_dotted(parts: tuple[str, ...]) -> str:
    """A qualified Spark name, each part in backticks."""
    return ".".join(quote(part) for part in parts)


def split_dotted(name: str) -> tuple[str, ...]:
    """The parts of a catalog name; backticks protect dots and are doubled inside.

    Example:
        >>> split_dotted("db.`my.table`")
        ('db', 'my.table')
    """
    parts = re.findall(r"`((?:[^`]|``)*)`|([^.`]+)", name)
    return tuple(quoted.replace("``", "`") or plain for quoted, plain in parts)


def check_text(text: str, what: str) -> None:
    """Refuse text that Spark would substitute or that carries a NUL."""
    if "${" in text:
        raise DeltaJoinError(
            "VARIABLE_SUBSTITUTION",
            f"{what} contains '${{', which Spark replaces by variables and environment values",
            where=what,
            remedy="Write the value out; deltajoin never substitutes.",
        )
    if "\x00" in text:
        raise DeltaJoinError(
            "INVALID_NAME", f"{what} contains a NUL character", where=what, remedy="Remove it."
        )


def check_name(name: str, what: str) -> None:
    """Refuse an unusable identifier: empty, too long, substituted or reserved."""
    check_text(name, what)
    if not name.strip() or len(name.encode()) > MAX_NAME_BYTES:
        raise DeltaJoinError(
            "INVALID_NAME",
            f"{what} must have 1 to {MAX_NAME_BYTES} bytes",
            where=what,
            remedy="Choose a shorter, non-empty name.",
        )
    if name.lower().startswith(RESERVED_PREFIX):
        raise DeltaJoinError(
            "RESERVED_NAME",
            f"'{name}' starts with '{RESERVED_PREFIX}', which deltajoin keeps for itself",
            where=what,
            remedy="Rename the column or table.",
        )


def slug(text: str) -> str:
    """A readable name of letters, digits and underscores for views and constants.

    Example:
        >>> slug("my.table`x"), slug("2026 orders")
        ('my_table_x', 'x2026_orders')
    """
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")
    return name if name and not name[0].isdigit() else f"x{name}"


class UniqueNames:
    """Hands out names that differ even when case is ignored, by adding `_2`, `_3`, ...

    Example:
        >>> names = UniqueNames()
        >>> [names.take("a"), names.take("A"), names.take("b")]
        ['a', 'A_2', 'b']
    """

    def __init__(self, taken: tuple[str, ...] = ()) -> None:
        self._taken = {name.lower() for name in taken}

    def take(self, wanted: str) -> str:
        """The wanted name, or its first free numbered form."""
        name, number = wanted, 1
        while name.lower() in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name.lower())
        return name

    def copy(self) -> UniqueNames:
        """The same names taken, for one that may come to nothing."""
        return UniqueNames(tuple(self._taken))
