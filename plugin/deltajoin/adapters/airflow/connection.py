"""Storage options from an Airflow connection of type `aws`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(conn_id: str | None, *options: Mapping[str, str] | None) -> dict[str, str]:
    """The options of a connection, if one is named, and further ones, each over those before."""
    from airflow.sdk import BaseHook

    found = options_of(BaseHook.get_connection(conn_id)) if conn_id else {}
    for given in options:
        found |= given or {}
    return found


def options_of(connection: Any) -> dict[str, str]:
    """Login, password and the extras `region_name`, `endpoint_url` and `aws_session_token` of a
    connection of type `aws`, under delta-rs's names.

    Example:
        >>> from types import SimpleNamespace
        >>> extra = {"region_name": "eu-west-1", "endpoint_url": "http://store:9000"}
        >>> found = SimpleNamespace(login="me", password=None, extra_dejson=extra)
        >>> sorted(options_of(found))
        ['AWS_ACCESS_KEY_ID', 'AWS_ALLOW_HTTP', 'AWS_ENDPOINT_URL', 'AWS_REGION']
    """
    extra = connection.extra_dejson
    endpoint = extra.get("endpoint_url")
    found = {
        "AWS_ACCESS_KEY_ID": connection.login,
        "AWS_SECRET_ACCESS_KEY": connection.password,
        "AWS_SESSION_TOKEN": extra.get("aws_session_token"),
        "AWS_REGION": extra.get("region_name"),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true" if str(endpoint).startswith("http:") else None,
    }
    return {name: str(value) for name, value in found.items() if value}
