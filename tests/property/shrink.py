"""The smallest case that still fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from deltajoin.errors import DeltaJoinError
from tests.property.cases import Case, digest, from_json, keys_hold, smaller, to_json
from tests.property.oracle import Mismatch, Mutant, check

CASES = Path(__file__).parent.parent / "fixtures" / "cases"


def failure(case: Case, mutant: Mutant | None = None) -> tuple[str, str]:
    """What is wrong with a case: its sort and its text, both empty when all is well."""
    try:
        for outcome in check(case, mutant):
            if outcome.problem:
                return "mismatch", f"epoch {outcome.epoch}: {outcome.problem}"
    except DeltaJoinError as error:
        return error.code, str(error)
    except Mismatch as error:
        return "backfill", str(error)
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


def shrink(case: Case, fails: Callable[[Case], bool], seconds: float = 20.0) -> Case:
    """Drop one part after the other as long as the case fails; greedy, bounded by time."""
    until = time.monotonic() + seconds
    again = True
    while again:
        again = False
        for candidate in smaller(case):
            if time.monotonic() > until:
                return case
            if keys_hold(candidate) and fails(candidate):
                case, again = candidate, True
                break
    return case


def keep(case: Case, note: str) -> Path:
    """Write a case to the fixtures, where every run replays it first."""
    CASES.mkdir(parents=True, exist_ok=True)
    file = CASES / f"{digest(case)}.json"
    file.write_text(to_json(replace(case, note=note)), encoding="utf-8")
    return file


def kept() -> list[Path]:
    return sorted(CASES.glob("*.json"))


def load(file: Path) -> Case:
    return from_json(file.read_text(encoding="utf-8"))
