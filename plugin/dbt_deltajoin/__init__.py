"""The module that dbt finds by its prefix; everything real is in `deltajoin.adapters.dbt`."""

from __future__ import annotations

from deltajoin.adapters.dbt.plugin import DeltaJoinPlugin

plugins = [DeltaJoinPlugin]

__all__ = ["DeltaJoinPlugin", "plugins"]
