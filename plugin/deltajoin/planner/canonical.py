"""A numbering of relations that depends on the query's structure, not on its wording.

Relations are coloured by source, used columns and place (which sides of which joins they stand in),
then again and again by the predicates they share with coloured neighbours, until no colour splits.
What still looks alike is told apart by name, one relation at a time, so that a renamed query gets
the same numbers wherever its twins are true twins. Writing order plays no part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from deltajoin.graph import Block, Join, JoinGraph, Predicate

#: Twins of larger queries are told apart by name at once.
_MOST_TOLD_APART = 24

_Text = tuple[str, ...]


@lru_cache(maxsize=16)
def canonical_names(graph: JoinGraph) -> tuple[str, ...]:
    """All relation names in canonical order."""
    places = dict(_places(graph.root, ()))
    found = {r.name: (r.source, r.columns, places[r.name]) for r in graph.relations}
    touching: dict[str, list[tuple[_Text, Predicate]]] = {name: [] for name in found}
    for place, predicate in _predicates(graph.root, ()):
        for name in predicate.relations:
            touching[name].append((place, predicate))
    colours = _refined(_ranked(found), touching)
    while len(colours) <= _MOST_TOLD_APART and (twins := _twins(colours)):
        alone = min(twins)
        apart = {name: (colour, name != alone) for name, colour in colours.items()}
        colours = _refined(_ranked(apart), touching)
    return tuple(sorted(colours, key=lambda name: (colours[name], name)))


def anonymous(sql: str, numbers: Mapping[str, int]) -> _Text:
    """The text of a predicate with numbers in the place of relation names."""
    parts = re.split(r"(`(?:[^`]|``)+`)(?=\.)", sql)
    return tuple(_numbered(part, numbers) for part in parts)


def _numbered(part: str, numbers: Mapping[str, int]) -> str:
    name = part[1:-1].replace("``", "`")
    return str(numbers[name]) if part[:1] == "`" and name in numbers else part


def _places(block: Block, place: _Text) -> Iterator[tuple[str, _Text]]:
    for item in block.items:
        if isinstance(item, str):
            yield item, place
        else:
            yield from _places(item.left, (*place, f"{item.kind} left"))
            yield from _places(item.right, (*place, f"{item.kind} right"))


def _predicates(block: Block, place: _Text) -> Iterator[tuple[_Text, Predicate]]:
    for predicate in block.predicates:
        yield place, predicate
    for item in block.items:
        if isinstance(item, Join):
            for predicate in item.on:
                yield (*place, item.kind), predicate
            yield from _predicates(item.left, (*place, f"{item.kind} left"))
            yield from _predicates(item.right, (*place, f"{item.kind} right"))


def _ranked(found: Mapping[str, object]) -> dict[str, int]:
    ranks = {value: rank for rank, value in enumerate(sorted(set(found.values()), key=repr))}
    return {name: ranks[value] for name, value in found.items()}


def _refined(
    colours: dict[str, int], touching: Mapping[str, list[tuple[_Text, Predicate]]]
) -> dict[str, int]:
    while True:
        found = {}
        for name, shared in touching.items():
            # Itself as -1, so that the two ends of an equality differ where its columns do.
            seen = sorted((place, _seen(predicate, colours, name)) for place, predicate in shared)
            found[name] = (f"{colours[name]:06}", tuple(seen))
        finer = _ranked(found)
        if len(set(finer.values())) == len(set(colours.values())):
            return finer
        colours = finer


def _seen(predicate: Predicate, colours: Mapping[str, int], name: str) -> _Text:
    numbers = {relation: colours[relation] for relation in predicate.relations} | {name: -1}
    if predicate.left is not None and predicate.right is not None:
        ends = ((numbers[relation], column) for relation, column in predicate.refs)
        return tuple(f"{number} {column}" for number, column in sorted(ends))
    return anonymous(predicate.sql, numbers)


def _twins(colours: Mapping[str, int]) -> list[str]:
    """The relations of the first colour that several have."""
    classes: dict[int, list[str]] = {}
    for name, colour in colours.items():
        classes.setdefault(colour, []).append(name)
    return next((classes[c] for c in sorted(classes) if len(classes[c]) > 1), [])
