"""The options of a table in Spark's catalog: `CREATE TABLE t USING magnetar OPTIONS (...)`.

The catalog adds its own properties to the options, and repeats each option with the prefix `option.`. When a query
reads the table, Spark passes a Python source no options, only the table's columns. Therefore the options are stored in
the metadata of its first column, which the catalog keeps. Options of the query take precedence. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

METADATA = "magnetar.options"

_ADDED = {"path", "serialization.format", "provider", "location", "owner", "comment", "external", "is_managed_location"}
_REPEATED = "option."


def is_table(options: Mapping[str, str]) -> bool:
    """Whether CREATE TABLE passes these options: only it names a provider."""
    return any(name.lower() == "provider" for name in options)


def own_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options without the additions of the catalog."""
    return {name: text for name, text in options.items() if not _added(name.lower())}


def table_metadata(options: Mapping[str, str]) -> dict[str, Any]:
    """The options of a table as metadata of a column."""
    return {METADATA: json.dumps(own_options(options), sort_keys=True)}


def with_table(options: Mapping[str, str], metadata: Mapping[str, Any]) -> dict[str, str]:
    """The options of a query, completed by those of the table that it reads."""
    own = own_options(options)
    kept = json.loads(metadata[METADATA]) if METADATA in metadata else {}
    lower = {name.lower() for name in own}
    return own | {name: text for name, text in kept.items() if name.lower() not in lower}


def _added(name: str) -> bool:
    return name in _ADDED or name.startswith(_REPEATED)
