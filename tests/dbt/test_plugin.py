"""How dbt finds the plugin, and what the plugin does to dbt's adapters."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deltajoin.errors import DeltaJoinError


def test_importing_the_module_loads_neither_spark_nor_the_parser() -> None:
    check = (
        "import sys, dbt_deltajoin; dbt_deltajoin.plugins[0]('any'); "
        "heavy = {'pyspark', 'sqlglot', 'deltalake', 'dbt.adapters.spark'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_dbt_finds_it_by_its_prefix() -> None:
    from dbt.plugins.manager import PluginManager

    names = [plugin.name for plugin in PluginManager.from_modules("any")._plugins]
    assert "DeltaJoinPlugin" in names


def test_the_spark_adapter_is_adopted_once() -> None:
    from dbt.adapters.factory import FACTORY

    from dbt_deltajoin import DeltaJoinPlugin

    FACTORY.load_plugin("spark")
    DeltaJoinPlugin("any")
    adopted = FACTORY.plugins["spark"].adapter
    DeltaJoinPlugin("any")
    assert FACTORY.plugins["spark"].adapter is adopted
    assert adopted.type() == "spark"
    assert {"deltajoin_run", "deltajoin_explain"} <= adopted._available_


def test_other_connections_than_session_are_refused() -> None:
    from dbt.adapters.spark.connections import SparkConnectionMethod, SparkCredentials

    from deltajoin.adapters.dbt.build import session_of

    credentials = SparkCredentials(host="h", schema="s", method=SparkConnectionMethod.SESSION)
    credentials.method = SparkConnectionMethod.THRIFT
    with pytest.raises(DeltaJoinError, match="UNSUPPORTED_CONNECTION.*connects by 'thrift'"):
        session_of(credentials)
