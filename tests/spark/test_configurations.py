"""The oracle's random models under other settings of Spark and other layouts of tables.

Eleven settings of two values each in twelve configurations, so that every two settings meet in all
four combinations (the Plackett-Burman design). In each a random model goes through its epochs and
is compared as in `test_oracle`. By default one configuration, with `--thorough` all, with more
models.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from deltajoin.runtime.own_session import FEW_ROWS_SETTING
from tests.property.generate import Profile
from tests.property.oracle import draw
from tests.spark.test_oracle import follow, kept_tree

_PROPERTY = "spark.databricks.delta.properties.defaults."
#: Setting -> its two values.
SETTINGS = (
    ("spark.sql.adaptive.enabled", ("false", "true")),
    ("spark.sql.ansi.enabled", ("true", "false")),
    ("spark.sql.caseSensitive", ("false", "true")),
    ("spark.sql.codegen.wholeStage", ("false", "true")),
    ("spark.sql.autoBroadcastJoinThreshold", ("10485760", "-1")),
    (FEW_ROWS_SETTING, ("100000", "0")),
    ("spark.sql.shuffle.partitions", ("1", "7")),
    (_PROPERTY + "enableDeletionVectors", ("false", "true")),
    (_PROPERTY + "columnMapping.mode", ("none", "name")),
    ("spark.sql.join.preferSortMergeJoin", ("true", "false")),
    ("partitioned sources", ("false", "true")),
)
_ROW = (1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0)
DESIGN = (*(_ROW[n:] + _ROW[:n] for n in range(len(_ROW))), (0,) * len(_ROW))


@dataclass(frozen=True)
class Configuration:
    """A value for each setting."""

    number: int

    @property
    def values(self) -> dict[str, str]:
        chosen = zip(SETTINGS, DESIGN[self.number], strict=True)
        return {name: values[place] for (name, values), place in chosen}

    def session(self, spark: Any) -> Any:
        own = spark.newSession()
        for name, value in self.values.items():
            if name.startswith("spark."):
                own.conf.set(name, value)
        if self.number == 0:
            own.conf.set("spark.sql.shuffle.partitions", "200")
        return own

    @property
    def partitioned(self) -> bool:
        return self.values["partitioned sources"] == "true"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "number" in metafunc.fixturenames:
        thorough = metafunc.config.getoption("--thorough")
        metafunc.parametrize("number", range(len(DESIGN)) if thorough else (3,))
        metafunc.parametrize("model", range(3 if thorough else 1))


@pytest.mark.parametrize("shape", ["joins", "tree"])
def test_a_random_model_under(
    number: int, model: int, shape: str, spark: Any, tmp_path: Path
) -> None:
    configuration = Configuration(number)
    seed = 500 + 20 * number + model
    epochs = 3 if model else 2
    profile = Profile(epochs=(epochs, epochs), hard_names=False, stars=False, keyed=seed % 2 == 0)
    case = kept_tree(seed, profile) if shape == "tree" else draw(seed, profile)
    session = configuration.session(spark)
    follow(case, spark, tmp_path, given=session, partitioned=configuration.partitioned)


def test_every_two_settings_meet_in_every_way() -> None:
    for one, other in combinations(range(len(SETTINGS)), 2):
        assert len({(row[one], row[other]) for row in DESIGN}) == 4
