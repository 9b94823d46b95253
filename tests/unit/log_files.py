"""Commits of a Delta log, rewritten as no writer would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deltajoin.contract import PROPERTIES

#: The properties with which a model `m` makes its target.
OURS = {"deltajoin.model": "m", "deltajoin.format": "1", **PROPERTIES}


def edit_actions(
    table: Path, version: int, kind: str, change: Callable[[dict[str, Any]], None]
) -> None:
    """Change the actions of one kind (`metaData`, `commitInfo`) in a commit's file."""
    file = table / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for action in actions:
        if kind in action:
            change(action[kind])
    file.write_text("\n".join(map(json.dumps, actions)))


def give_properties(table: Path, properties: dict[str, str]) -> None:
    """Set the properties of a new table, which deltalake would refuse."""
    edit_actions(table, 0, "metaData", lambda found: found["configuration"].update(properties))


def edit_record(table: Path, version: int, **fields: Any) -> None:
    """Change fields of the record that a commit of ours carries."""

    def change(info: dict[str, Any]) -> None:
        record = json.loads(info["userMetadata"])["deltajoin"]
        info["userMetadata"] = json.dumps({"deltajoin": {**record, **fields}})

    edit_actions(table, version, "commitInfo", change)
