"""No-op, incremental or full: one decision with one reason.

The first rule that applies wins, in this order:

    the last epoch's commit is gone     full         HISTORY_LOST         strict: refused
    nothing there yet                   full         FIRST_RUN
    our rules for rows changed          full         RULES_CHANGED        strict: refused
    the model's definition changed      full         MODEL_CHANGED        strict: refused
    mode full                           full         FULL_REQUESTED
    a source can't give its change      full         the source's code    strict: refused
    the clock decides rows, and moved   full         CLOCK_MOVED
    no source changed                   noop         NO_CHANGE
    an operator is not kept             full         the operator's code  strict: refused
    an incremental run of it failed     full         what it failed with  strict: refused
    mode auto, over 20 % of rows        full         CHANGE_TOO_LARGE
    mode auto, finding out is dearer    full         CHANGE_TOO_LARGE
    mode auto, it reaches over 20 %     full         CHANGE_TOO_LARGE
    mode auto, no key leads on          full         NO_SCOPE
    mode auto, joins multiply lookups   full         TOO_MANY_LOOKUPS
    mode auto, past runs took longer    full         REBUILD_CHEAPER
    otherwise                           incremental  CHANGES

`incremental` differs from `auto` by never rebuilding for size; `incremental_strict` never rebuilds
after the first run. Under strict, a model that could never run incrementally is refused at once.
`shadow` decides as `incremental`, and what is incremental is compared with a rebuild (shadow.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from deltajoin.errors import DeltaJoinError, Refusal

LARGEST_SHARE = 0.20
#: Rows up to which it matters little whether they are followed or all computed anew.
FEW_ROWS = 100_000
#: What the other strategy has to save before it is taken in place of the last one.
HYSTERESIS = 0.15


@dataclass(frozen=True)
class Seconds:
    """What the two strategies should take; `last_rebuilt`: the last epoch was a rebuild because
    that should cost less."""

    incremental: float
    rebuild: float
    last_rebuilt: bool = False

    @property
    def favour_rebuild(self) -> bool:
        """True where a rebuild should cost less, and clearly so if it wasn't one last time."""
        margin = 1 - HYSTERESIS if self.last_rebuilt else 1 + HYSTERESIS
        return self.incremental > margin * self.rebuild

    @property
    def text(self) -> str:
        """Both for people."""
        return f"{self.incremental:,.0f} s are expected, {self.rebuild:,.0f} s of a rebuild"

    def to_dict(self) -> dict[str, float]:
        """Seconds by strategy, of what is recorded."""
        return {"incremental": round(self.incremental, 1), "full": round(self.rebuild, 1)}


@dataclass(frozen=True)
class Decision:
    """The strategy of a run and its reason."""

    strategy: str
    reason: str
    detail: str


NO_CHANGE = Decision("noop", "NO_CHANGE", "no source changed since the last epoch")


@dataclass(frozen=True)
class Situation:
    """What the decision depends on.

    `finding` tells why finding the change costs more than all, `reach` how many rows it should lead
    to where these are too many, `untraced` why following it costs more, `lost` why nobody knows
    what the last epoch consumed. `changed_meaning`: other rules of ours or another definition than
    the last epoch's. `predicted` are seconds of both, by past runs. `clock` tells how the clock
    moved that decides rows, `failed` what an incremental run over these versions ended with.
    """

    mode: str
    first_run: bool
    changed_meaning: Refusal | None
    operator: Refusal | None
    sources: tuple[Refusal, ...]
    changed: tuple[str, ...]
    share: float | None
    finding: str | None = None
    reach: str | None = None
    untraced: Refusal | None = None
    predicted: Seconds | None = None
    lost: Refusal | None = None
    clock: str | None = None
    failed: Refusal | None = None


def decide(now: Situation) -> Decision:
    """Choose the strategy.

    Raises:
        DeltaJoinError: under incremental_strict, the code of what rules out an incremental run.
    """
    found = (now.lost, now.changed_meaning, *now.sources, now.operator, now.failed)
    obstacles = [o for o in found if o is not None]
    if now.mode == "incremental_strict" and obstacles:
        raise DeltaJoinError.of(obstacles[0])
    if now.lost:
        return Decision("full", now.lost.code, now.lost.message)
    if now.first_run:
        return Decision("full", "FIRST_RUN", "the target holds no epoch yet")
    if now.changed_meaning:
        return Decision("full", now.changed_meaning.code, now.changed_meaning.message)
    if now.mode == "full":
        return Decision("full", "FULL_REQUESTED", "mode full")
    if now.sources:
        return Decision("full", now.sources[0].code, now.sources[0].message)
    if not now.changed:
        return Decision("full", "CLOCK_MOVED", now.clock) if now.clock else NO_CHANGE
    if stop := now.operator or now.failed:
        return Decision("full", stop.code, f"{stop.message} ({stop.where})")
    if now.mode == "auto" and (rebuild := _cheaper(now)):
        return rebuild
    return Decision("incremental", "CHANGES", "changed: " + ", ".join(now.changed))


def _cheaper(now: Situation) -> Decision | None:
    """The rebuild that should cost less than an incremental run, if it does."""
    if now.share is not None and now.share > LARGEST_SHARE:
        text = f"{now.share:.0%} of the rows changed, more than {LARGEST_SHARE:.0%}"
        return Decision("full", "CHANGE_TOO_LARGE", text)
    if too_large := now.finding or now.reach:
        return Decision("full", "CHANGE_TOO_LARGE", too_large)
    if now.untraced is not None:
        return Decision("full", now.untraced.code, now.untraced.message)
    if now.predicted is not None and now.predicted.favour_rebuild:
        return Decision("full", "REBUILD_CHEAPER", now.predicted.text)
    return None
