"""The entry point of an emitted job: one session, one run, one line of result."""

from __future__ import annotations

import json
import sys
from typing import Any

from deltajoin.errors import DeltaJoinError

RESULT_PREFIX = "deltajoin-result: "


def main(plan: dict[str, Any], program: dict[str, Any]) -> None:
    """Run a plan in the session that spark-submit gives; exit 1 with the error's code."""
    if plan["strategy"] == "noop":
        print(RESULT_PREFIX + json.dumps({"strategy": "noop", "reason": plan["reason"]}))
        return
    from pyspark.sql import SparkSession

    from deltajoin.runtime.execute import execute

    spark = SparkSession.builder.appName(f"deltajoin {plan['model']}").getOrCreate()
    try:
        result = execute(spark, {"plan": plan, "program": program})
    except DeltaJoinError as error:
        print(RESULT_PREFIX + json.dumps({"error": error.to_dict()}), flush=True)
        print(error, file=sys.stderr, flush=True)
        sys.exit(1)
    finally:
        spark.stop()
    print(RESULT_PREFIX + json.dumps(result), flush=True)
