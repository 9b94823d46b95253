"""Secrets that tests plant wherever a run can meet one, to be found nowhere in what it tells."""

from __future__ import annotations

import re

OPTIONS = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "client_secret",
)
SETTINGS = (
    "fs.s3a.secret.key",
    "fs.azure.account.key.lake.dfs.core.windows.net",
    "spark.some.password",
)
#: Where each is planted -> what it is. None is part of another.
PLANTED = {
    name: f"planted{number:02d}{'QxZw'[number % 4]}{37 * number + 1009}"
    for number, name in enumerate(
        (
            "environment",
            *OPTIONS,
            *SETTINGS,
            "password of a URL",
            "value of a key",
            "value of a text",
            "value that is changed",
            "value that comes to be",
            "value that is deleted",
            "value that can't be cast",
            "value that is twice",
            "password of a connection",
            "extra of a connection",
            "parameter of a profile",
        )
    )
}


def found_in(text: str | bytes) -> list[str]:
    """The places whose secrets are in a text."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    words = set(re.findall(r"planted\w+", text))
    return [place for place, secret in PLANTED.items() if any(secret in word for word in words)]
