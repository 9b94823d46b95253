"""What Airflow's provider registry learns of deltajoin, through its entry point."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The provider description that `airflow providers list` shows."""
    from deltajoin import __version__

    return {
        "package-name": "deltajoin",
        "name": "deltajoin",
        "description": "Multi-table joins as incremental Delta Lake tables.",
        "versions": [__version__],
        "operators": [
            {
                "integration-name": "deltajoin",
                "python-modules": [
                    "deltajoin.adapters.airflow.frontier",
                    "deltajoin.adapters.airflow.operator",
                ],
            }
        ],
    }
