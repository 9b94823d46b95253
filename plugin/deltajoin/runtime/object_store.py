"""Storage options under the names by which Spark's session knows them.

Rule: of delta-rs's names, those of S3 become Hadoop's `fs.s3a.*`; `s3://` is served by the same
file system as `s3a://`, so that a plan's locations stay as the user wrote them. They are set on the
run's own session and reach its executors; an emitted job has none and takes the cluster's. Options
of other stores are the planner's alone: Spark gets them from its own configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltajoin.storage import options_in_force

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_S3 = {
    "access_key_id": "fs.s3a.access.key",
    "secret_access_key": "fs.s3a.secret.key",
    "session_token": "fs.s3a.session.token",
    "region": "fs.s3a.endpoint.region",
    "default_region": "fs.s3a.endpoint.region",
    "endpoint": "fs.s3a.endpoint",
    "endpoint_url": "fs.s3a.endpoint",
}
_PATH_STYLE = "fs.s3a.path.style.access"
_VIRTUAL_HOSTED = "virtual_hosted_style_request"


def set_storage(session: SparkSession) -> None:
    """Give a session the options in force."""
    for key, value in hadoop_settings(options_in_force()).items():
        session.conf.set(key, value)


def hadoop_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Hadoop's settings for S3; empty where no option is of S3.

    Example:
        >>> hadoop_settings({"AWS_REGION": "eu-west-1"})["fs.s3a.endpoint.region"]
        'eu-west-1'
        >>> hadoop_settings({"azure_storage_account_name": "lake"})
        {}
    """
    given = {name.lower().removeprefix("aws_"): value for name, value in options.items()}
    found = {_S3[name]: value for name, value in given.items() if name in _S3}
    if not found:
        return {}
    found["fs.s3.impl"] = "org.apache.hadoop.fs.s3a.S3AFileSystem"
    endpoint = found.get("fs.s3a.endpoint")
    if endpoint is not None:
        virtual = given.get(_VIRTUAL_HOSTED, "false").lower() == "true"
        found[_PATH_STYLE] = str(not virtual).lower()
        found["fs.s3a.connection.ssl.enabled"] = str(not endpoint.startswith("http:")).lower()
    return found
