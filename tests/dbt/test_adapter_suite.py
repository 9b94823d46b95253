"""dbt's own adapter tests, on the adapter that the plugin has adopted, with a delta_join model.

They show that seeds, views, tables, incremental and ephemeral models and tests work as before, and
that a delta_join model is a table to dbt.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from dbt.tests.adapter.basic import files
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_incremental import BaseIncremental
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.fixtures.project import *  # noqa: F403
from dbt.tests.util import run_dbt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.dbt, pytest.mark.filterwarnings("ignore::pytest.PytestWarning")]

REPOSITORY = Path(__file__).parents[2]
DELTA_JOIN = """
{{ config(materialized='delta_join', deltajoin={'keys': {'base': ['id']}}) }}
select a.id, b.name, a.some_date
from {{ source('raw', 'seed') }} a join {{ source('raw', 'seed') }} b on a.id = b.id
"""


@pytest.fixture(scope="module", autouse=True)
def _shared_session(spark: SparkSession) -> Iterator[None]:
    """dbt joins the tests' session and turns ANSI mode off there, to the end of the last project.

    Of the module, so that it outlives the projects, whose teardown connects once more.
    """
    ansi = str(spark.conf.get("spark.sql.ansi.enabled"))
    yield
    spark.conf.set("spark.sql.ansi.enabled", ansi)


@pytest.fixture(scope="class")
def dbt_profile_target() -> dict[str, Any]:
    return {"type": "spark", "method": "session", "host": "NA"}


@pytest.fixture(scope="class")
def packages() -> dict[str, Any]:
    return {"packages": [{"local": str(REPOSITORY)}]}


@pytest.fixture(scope="class", autouse=True)
def _deps(project: Any) -> None:
    run_dbt(["deps"])


class TestMaterializations(BaseSimpleMaterializations):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "view_model.sql": files.base_view_sql,
            "table_model.sql": DELTA_JOIN,
            "swappable.sql": files.base_materialized_var_sql,
            "schema.yml": files.schema_base_yml,
        }

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"name": "base", "seeds": {"+file_format": "delta"}}


class TestGenericTests(BaseGenericTests):
    pass


class TestIncremental(BaseIncremental):
    pass


class TestSingularTestsEphemeral(BaseSingularTestsEphemeral):
    pass
