"""The options of a table in Spark's catalog: `CREATE TABLE t USING magnetar OPTIONS (...)`.

The catalog adds properties of its own to the options, and repeats each option behind `option.`. When the table is read,
Spark hands a Python source no options at all, only the table's columns: so they are kept in the metadata of its first
column, which the catalog stores. Options that a query gives itself come first. Decides only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

METADATA = "magnetar.options"

_ADDED = {"path", "serialization.format", "provider", "location", "owner", "comment", "external", "is_managed_location"}
_REPEATED = "option."


def is_table(given: Mapping[str, str]) -> bool:
    """Are these options those that CREATE TABLE passes? Only they name a provider."""
    return any(name.lower() == "provider" for name in given)


def own_options(given: Mapping[str, str]) -> dict[str, str]:
    """Without what the catalog adds."""
    return {name: text for name, text in given.items() if not _added(name.lower())}


def table_metadata(given: Mapping[str, str]) -> dict[str, Any]:
    """The options of a table as metadata of a column."""
    return {METADATA: json.dumps(own_options(given), sort_keys=True)}


def with_table(given: Mapping[str, str], metadata: Mapping[str, Any]) -> dict[str, str]:
    """The options of a query, and those of the table that it reads, if it reads one."""
    own = own_options(given)
    kept = json.loads(metadata[METADATA]) if METADATA in metadata else {}
    lower = {name.lower() for name in own}
    return own | {name: text for name, text in kept.items() if name.lower() not in lower}


def _added(name: str) -> bool:
    return name in _ADDED or name.startswith(_REPEATED)
