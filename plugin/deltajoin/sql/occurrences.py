"""Each relation once in a normal form: what occurs again gets a name of its own.

Where the right side of an anti or semi join is a sum, each summand is attached by itself, so one
relation may stand in several attachments of a branch. Its change comes at each of these places, one
after the other, as that of different relations does. Only the attachment and its condition see the
new name: nothing above a semi or anti join reads its right side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from deltajoin.graph import Attachment, Core, Predicate
from deltajoin.names import UniqueNames
from deltajoin.sql.dialect import parse_expression, with_columns
from deltajoin.sql.predicates import predicate_of


def told_apart(
    cores: Iterable[Core], names: tuple[str, ...]
) -> tuple[tuple[Core, ...], dict[str, str]]:
    """The cores, and new name -> relation; a name serves again in another branch.

    Args:
        names: all that are taken.
    """
    taken = UniqueNames(names)
    copies: dict[str, list[str]] = {}
    found = []
    for core in cores:
        branch = _Branch(taken, copies)
        found.append(branch.renamed(core, {})[0])
    return tuple(found), {new: old for old, made in copies.items() for new in made}


class _Branch:
    """The names that one branch has used; `copies`: relation -> its further names, of all."""

    def __init__(self, taken: UniqueNames, copies: dict[str, list[str]]) -> None:
        self._taken, self._copies = taken, copies
        self._used: dict[str, int] = {}

    def renamed(self, core: Core, above: Mapping[str, str]) -> tuple[Core, dict[str, str]]:
        """The core under names not yet used, and what its relations are called now."""
        names = {name: self._name(name) for name in core.relations}
        attachments = []
        for attachment in core.attachments:
            inner, below = self.renamed(attachment.core, {**above, **names})
            on = _under(attachment.on, {**above, **names, **below})
            attachments.append(Attachment(attachment.kind, inner, on))
            if attachment.kind == "left":
                names |= below
        again = replace(
            core,
            relations=tuple(names[name] for name in core.relations),
            predicates=_under(core.predicates, {**above, **names}),
            attachments=tuple(attachments),
        )
        return again, names

    def _name(self, relation: str) -> str:
        number = self._used.get(relation, 0)
        self._used[relation] = number + 1
        if number == 0:
            return relation
        made = self._copies.setdefault(relation, [])
        if len(made) < number:
            made.append(self._taken.take(relation))
        return made[number - 1]


def _under(predicates: tuple[Predicate, ...], names: Mapping[str, str]) -> tuple[Predicate, ...]:
    return tuple(_renamed(predicate, names) for predicate in predicates)


def _renamed(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    if all(names.get(name, name) == name for name in predicate.relations):
        return predicate

    def renamed(column: exp.Column) -> exp.Column:
        return exp.column(column.name, table=names.get(column.table, column.table), quoted=True)

    return predicate_of(with_columns(parse_expression(predicate.sql), renamed))
