"""What is made of the joined rows besides groups: rows of generators, values of windows.

    joined rows (projections) -> generators -> GROUP BY or windows -> outputs

Each layer reads the columns of the one below as `input`.`column`. Caller: build with `sql.layers`.
"""

from __future__ import annotations

from dataclasses import dataclass

INPUT = "input"


@dataclass(frozen=True)
class Output:
    """A column over the rows below; `column` is set when it is one of theirs as it is."""

    name: str
    sql: str
    column: str | None = None


@dataclass(frozen=True)
class Generator:
    """One LATERAL VIEW; `call` may read the columns of generators before it."""

    call: str
    outer: bool
    alias: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Generation:
    """Row-wise generators on the joined rows, and filters that read what they give."""

    generators: tuple[Generator, ...]
    outputs: tuple[Output, ...]
    conditions: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """All expressions over the rows below."""
        calls = (generator.call for generator in self.generators)
        return (*(o.sql for o in self.outputs), *calls, *self.conditions)


@dataclass(frozen=True)
class Order:
    """The partition and order of windows whose result depends on the order of ties.

    `columns` are its plain columns, `peers` counts rows that tie. Where no declared key rules ties
    out, rows that tie must agree in all that is `compared`, but for those that a condition `within`
    takes out, by their row_number() in this order alone.
    """

    columns: tuple[str, ...]
    peers: str
    within: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Windowing:
    """Window functions with partitions in common.

    `keys` are the columns below that every window is partitioned by, `key_outputs` the names under
    which they are stored: a key that is not given out has a hidden name. `outputs` and `conditions`
    read columns below and `windows`, which are (name, call). `first_of`: stored columns of which
    each value has one row, by `row_number() = 1`.
    """

    keys: tuple[str, ...]
    key_outputs: tuple[str, ...]
    windows: tuple[tuple[str, str], ...]
    orders: tuple[Order, ...]
    outputs: tuple[Output, ...]
    conditions: tuple[str, ...]
    first_of: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All expressions over the rows below."""
        return (
            *(output.sql for output in self.outputs),
            *(sql for _, sql in self.windows),
            *(order.peers for order in self.orders),
            *(f"`{INPUT}`.`{key}`" for key in self.keys),
            *self.conditions,
        )

    @property
    def hidden(self) -> tuple[Output, ...]:
        """The keys that the query does not give out."""
        given = {output.name for output in self.outputs}
        stored = zip(self.key_outputs, self.keys, strict=True)
        return tuple(
            Output(name, f"`{INPUT}`.`{key}`", key) for name, key in stored if name not in given
        )
