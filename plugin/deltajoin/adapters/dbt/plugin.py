"""Teach the registered Spark adapters the deltajoin calls, with the user's profile unchanged.

dbt imports every module named `dbt_*` at each invocation, after the profile has loaded its adapter
and before that adapter is built. There the registered class is replaced by a subclass that carries
`DeltaJoinMixin`, once per process, and the end of the run is told of (`summary.py`). Importing
this module loads neither pyspark nor sqlglot, and `initialize` never raises: dbt runs it in every
project of the environment.
"""

from __future__ import annotations

from typing import Any

from dbt.plugins.manager import dbtPlugin

_ADAPTERS = ("spark", "databricks")


class DeltaJoinPlugin(dbtPlugin):
    """The dbt plugin; dbt makes one at each invocation."""

    def initialize(self) -> None:
        """Adopt the Spark adapters that the profile has loaded, if any; a summary at the end."""
        try:
            from dbt.adapters.factory import FACTORY

            from deltajoin.adapters.dbt.summary import tell_at_the_end

            tell_at_the_end()
            for name in _ADAPTERS:
                registered = FACTORY.plugins.get(name)
                if registered is not None:
                    registered.adapter = adopt(registered.adapter)
        except Exception as error:  # another project's dbt must not fail on us
            _warn(f"deltajoin could not register with dbt: {error}")


def adopt(adapter: Any) -> Any:
    """The adapter class with the deltajoin calls; the class itself when it has them."""
    from deltajoin.adapters.dbt.adapter import DeltaJoinMixin

    if issubclass(adapter, DeltaJoinMixin):
        return adapter
    return type(adapter.__name__, (DeltaJoinMixin, adapter), {"__module__": adapter.__module__})


def _warn(text: str) -> None:
    from dbt.adapters.events.logging import AdapterLogger

    AdapterLogger("deltajoin").warning(text)
