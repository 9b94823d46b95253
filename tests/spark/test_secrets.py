"""Secrets of environment, options, settings, URLs and rows: nothing that a run leaves tells them.

A process of its own goes through success, failures, a death and the run after it, in all modes and
by all commands, and prints whatever each gives, exceptions with their causes too. Rows are in the
tables' data files, in the statistics and predicates that Delta keeps in its log; all else is
searched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltajoin
from deltajoin.api import check_rows
from tests.secrets import OPTIONS, PLANTED, SETTINGS, found_in
from tests.spark.shop import BAG, GROUPS, SQL, Shop, at, open_shop


class Story:
    """What a process does with the shop, step by step, and what it prints of each."""

    def __init__(self, shop: Shop) -> None:
        from deltajoin.runtime.session import local_session

        self.shop = shop
        self.spark = local_session("secrets", "local[2]")
        for setting in SETTINGS:
            self.spark.conf.set(setting, PLANTED[setting])
        options = {name: PLANTED[name] for name in OPTIONS[1:]}
        self.options = {**options, OPTIONS[0]: "${LAKE_SECRET}"}
        self.codes: list[str] = []

    def model(self, **changes: Any) -> deltajoin.Model:
        return self.shop.model(storage_options=self.options, **changes)

    def tell(self, work: Callable[[], Any]) -> None:
        """Print what some work gives, or how it fails."""
        try:
            told = work()
            print(repr(told), json.dumps(told.to_dict()))  # noqa: T201
            self.codes.append(getattr(told, "strategy", "told"))
        except deltajoin.DeltaJoinError as error:
            print(repr(error), json.dumps(error.to_dict()))  # noqa: T201
            traceback.print_exc(file=sys.stdout)
            self.codes.append(error.code)
        except KeyboardInterrupt:
            self.codes.append("died")

    def run(self, **changes: Any) -> None:
        model = self.model(**changes)
        self.tell(lambda: deltajoin.plan(model))
        self.tell(lambda: deltajoin.run(model, self.spark))

    def commands(self, *words: str) -> None:
        """Every command that starts no Spark."""
        from click.testing import CliRunner

        from deltajoin.adapters.cli import main

        file = self.shop.root / "model.yml"
        model = self.model()
        values = {**model.to_dict(), "storage_options": dict(self.options)}
        file.write_text(json.dumps({name: value for name, value in values.items() if value}))
        for command in (["plan"], ["explain"], ["emit"], ["audit", "show"], ["audit", "verify"]):
            for form in ([], ["--json"]):
                done = CliRunner().invoke(main, [*command, "--model", str(file), *form])
                assert done.exit_code == 0, done.output
                print(done.output)  # noqa: T201
        file.unlink()


def main(folder: str, kinds: list[str]) -> None:
    """The story, of targets of these kinds."""
    shop = open_shop(Path(folder))
    story = Story(shop)
    key, text = PLANTED["value of a key"], PLANTED["value of a text"]
    shop.append("customers", (50, text), (51, key))
    shop.append("orders", (100, 50, 5), (101, 51, 5))
    targets = {
        "keyed": story.model(target=shop.path("keyed")),
        "by_name": story.model(
            target=shop.path("by_name"),
            sql="SELECT c.name, c.customer_id FROM customers c"
            " LEFT SEMI JOIN orders o ON c.customer_id = o.customer_id",
            keys={"customers": ["name"]},
        ),
        "bag": story.model(target=shop.path("bag"), sql=BAG),
        "groups": story.model(target=shop.path("groups"), sql=GROUPS),
    }
    targets = {kind: targets[kind] for kind in kinds}

    def run_all(**changes: Any) -> None:
        for name, model in targets.items():
            changed = replace(model, name=name, **changes)
            story.tell(lambda: deltajoin.run(changed, story.spark))  # noqa: B023

    run_all()
    shop.update("customers", "customer_id = 3", name=f"'{PLANTED['value that is changed']}'")
    shop.append("customers", (52, PLANTED["value that comes to be"]))
    shop.append("orders", (102, 52, 5), (103, 3, 7))
    run_all(mode="shadow")
    shop.update("customers", "customer_id = 52", name=f"'{PLANTED['value that is deleted']}'")
    run_all()
    shop.delete("customers", "customer_id = 52")
    run_all(mode="full")
    story.run()
    story.commands()

    # Failures: of a cast, of a key, of rows that others wrote, of a place, of a text; a death.
    cast = PLANTED["value that can't be cast"]
    broken = SQL.replace("c.name", "CAST(c.name AS INT) AS n")
    shop.update("customers", "customer_id = 4", name=f"'{cast}'")
    story.run(sql=broken, target=shop.path("broken"))
    story.run(sql=broken.replace("CAST(c.name AS INT)", "to_date(c.name, 'yyyy')"))
    twice = PLANTED["value that is twice"]
    shop.append("customers", (60, twice), (61, twice))
    shop.append("orders", (104, 60, 1), (105, 61, 1))
    run_all()
    shop.append("customers", (60, twice))
    story.run(mode="incremental_strict")
    shop.delete("customers", "customer_id >= 60")
    foreign = replace(targets["bag"], name="bag", mode="shadow")
    story.spark.sql(f"DELETE FROM delta.`{foreign.target}` WHERE name = '{text}'")
    story.tell(lambda: deltajoin.run(foreign, story.spark))
    story.tell(lambda: check_rows(foreign, story.spark))
    place = f"s3://user:{PLANTED['password of a URL']}@nowhere/orders"
    story.tell(lambda: story.model(sources={"orders": place}))
    story.run(sql="SELECT o.order_id, unknown(o.amount) AS n FROM orders o")
    shop.append("orders", (106, 1, 1))

    def dies() -> None:
        raise KeyboardInterrupt

    story.tell(lambda: deltajoin.run(story.model(), story.spark, on_step=at("before_merge", dies)))
    story.run()
    story.commands()
    print("codes:", *story.codes)  # noqa: T201


def test_no_secret_is_told(tmp_path: Path, thorough: bool) -> None:
    kinds = ["keyed", "bag", *(["by_name", "groups"] if thorough else [])]
    environment = {**os.environ, "LAKE_SECRET": PLANTED["AWS_SECRET_ACCESS_KEY"]}
    environment["SOME_SECRET"] = PLANTED["environment"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.test_secrets", str(tmp_path / "shop"), *kinds],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    codes = done.stdout.splitlines()[-1]
    print(codes)  # noqa: T201
    told = {"output": done.stdout, "errors": done.stderr}
    for file in (tmp_path / "shop").rglob("*"):
        name = str(file.relative_to(tmp_path))
        if "_deltajoin" in name:
            told[name] = file.read_text() if file.is_file() else ""
        elif file.suffix == ".json":  # a commit: what is ours in it
            told[name] = "".join(
                info.get("userMetadata", "")
                for line in file.read_text().splitlines()
                if (info := json.loads(line).get("commitInfo"))
            )
    found = {name: places for name, text in told.items() if (places := found_in(text))}
    assert found == {}
    assert len(told) > 10 * len(kinds), sorted(told)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
