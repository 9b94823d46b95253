"""`audit verify --rows`: what a target holds against the query as it was written.

The versions are those of the last epoch, so that later changes of the sources don't count. What is
wrong here was written by commits that say that they change no row: no other check can find it.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import deltajoin
from deltajoin.adapters import cli
from deltajoin.api import check_rows
from tests.spark.shop import SQL, Shop, open_shop
from tests.spark.test_shadow import BAG, disguised

MODELS = {
    "keyed": SQL,
    "bag": BAG,
    "groups": "SELECT customer_id, avg(amount) AS a, sum(amount / 3.0D) AS s, count(*) AS n "
    "FROM orders GROUP BY customer_id HAVING count(*) > 1",
    "rebuilt": "SELECT order_id, amount FROM orders ORDER BY amount, order_id LIMIT 20",
    "clocked": "SELECT order_id, amount, current_timestamp() AS loaded_at FROM orders "
    "WHERE current_date() > DATE '2020-01-01'",
}


def model_of(shop: Shop, name: str) -> deltajoin.Model:
    keys = {} if name == "bag" else None
    model = shop.model(sql=MODELS[name], name=name, target=shop.path(name))
    return model if keys is None else shop.model(**{**vars(model), "keys": keys, "lines": ()})


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Targets of an epoch; the sources have moved on since."""
    shop = open_shop(tmp_path_factory.mktemp("rows"))
    for name in MODELS:
        deltajoin.run(model_of(shop, name), spark)
    shop.append("orders", (100, 1, 5))
    return shop


@pytest.mark.sampled
@pytest.mark.parametrize("name", MODELS)
def test_rows_are_held_against_the_text(shop: Shop, spark: Any, name: str) -> None:
    model = model_of(shop, name)
    rows = deltajoin.read(model, spark).count()
    assert check_rows(model, spark)["rows"] == rows > 0
    column = "name" if name == "bag" else "customer_id" if name == "groups" else "order_id"
    value = "'name 3'" if name == "bag" else "3"
    disguised(model.target, lambda table: table.delete(f"{column} = {value}"))
    with pytest.raises(deltajoin.DeltaJoinError, match="0 rows too many and lack") as caught:
        check_rows(model, spark)
    assert caught.value.code == "ROWS_DIFFER"


class Ended:
    """A session whose process has ended: to ask it anything fails."""

    def __getattr__(self, name: str) -> Any:
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize("work", [deltajoin.read, check_rows])
def test_a_session_that_has_ended(work: Any, shop: Shop) -> None:
    with pytest.raises(deltajoin.DeltaJoinError) as caught:
        work(model_of(shop, "keyed"), Ended())
    assert caught.value.code == "SPARK_LOST"


@pytest.mark.parametrize("by", ["path", "name"])
def test_the_command(
    by: str, shop: Shop, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def session(master: str, remote: str | None) -> Any:
        yield lambda: spark

    monkeypatch.setattr(cli, "_session", session)
    spark.sql("DROP TABLE IF EXISTS rows_by_name")
    model = shop.model(target=shop.path("command") if by == "path" else "rows_by_name")
    location = str(deltajoin.run(model, spark).location)
    file = tmp_path / "m.yml"
    keys = {name: list(columns) for name, columns in model.keys.items()}
    plain = {"name": "shop", "sql": SQL, "sources": dict(model.sources), "keys": keys}
    file.write_text(yaml.safe_dump({**plain, "target": model.target}))
    command = ["audit", "verify", "--rows", "--model", str(file)]
    done = CliRunner().invoke(cli.main, command)
    assert (done.exit_code, done.stdout) == (
        0,
        "1 epochs, 0 findings, 41 rows as the query has them\n",
    )
    disguised(location, lambda table: table.delete("order_id = 1"))
    done = CliRunner().invoke(cli.main, [*command, "--json"])
    told = json.loads(done.stdout)
    assert (done.exit_code, told["verified"], told["rows"]) == (1, False, None)
    assert [finding["code"] for finding in told["findings"]] == ["ROWS_DIFFER"]
    done = CliRunner().invoke(cli.main, ["audit", "verify", "--rows", "--target", model.target])
    assert done.exit_code == 2
    command.remove("--rows")
    done = CliRunner().invoke(cli.main, command)
    assert ("CATALOG_NAME" in done.stderr) == (by == "name"), "it starts no Spark"
    spark.sql("DROP TABLE IF EXISTS rows_by_name")
