"""The sum of everything that peers can make a broker hold is known, and the document states it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from magnetar.base import limits
from tools import memory_accounts as accounts

GIB = 1024 * accounts.MIB
DOCUMENT = Path(__file__).parents[2] / "docs" / "OPERATING.md"
# Bytes that no peer decides, or a part of another account.
ELSEWHERE = {
    "COMMAND_BYTES_MAX",
    "CONNECTION_KEPT_BYTES_MAX",
    "CONNECTION_PENDING_BYTES_MAX",
    "CONNECTION_PRODUCER_NAMES_BYTES_MAX",
    "CONNECTION_WRITE_BYTES_HIGH",
    "GIVEN_PROPERTIES_BYTES_MAX",
    "HTTP_ANSWER_BYTES_MAX",
    "HTTP_ANSWER_HEADERS_BYTES_MAX",
    "HTTP_BODY_BYTES_MAX",
    "HTTP_DISCARD_BYTES_MAX",
    "HTTP_MESSAGE_BYTES_MAX",
    "HTTP_METADATA_BYTES_MAX",
    "ID_BYTES_MAX",
    "LISTING_COMMAND_BYTES_MAX",
    "MEMBERS_TOLD_BYTES_MAX",
    "STORED_PROPERTIES_BYTES_MAX",
}
SECTIONS = ("# Frames and connections", "# Connections: what one peer can make the broker hold", "# REST")


def test_document_states_computed_sum() -> None:
    text = DOCUMENT.read_text()
    assert accounts.table() in text, "write tools.memory_accounts.table() to docs/OPERATING.md"
    assert accounts.sizes_table() in text, "write tools.memory_accounts.sizes_table() to docs/OPERATING.md"


def test_sum_is_that_of_its_accounts() -> None:
    each = sum(account.bytes_max for account in accounts.of_connection())
    shared = sum(account.bytes_max for account in accounts.shared())
    assert accounts.total(0) == shared
    assert accounts.total(1_000) == shared + 1_000 * each
    assert accounts.total(0, publish_buffer_mb=64) == shared - 448 * accounts.MIB


def test_names_of_accounts_are_different() -> None:
    every = (*accounts.shared(), *accounts.of_connection(), *accounts.of_subscription())
    names = [account.name for account in every]
    assert len(names) == len(set(names))
    assert all(accounts.bound(name) > 0 for name in names)


def test_every_limit_of_bytes_of_peers_has_account() -> None:
    """A new limit in one of these sections belongs to an account, or to the list above with a reason."""
    text = Path(limits.__file__).read_text()
    used = Path(accounts.__file__).read_text()
    found = set()
    for section in SECTIONS:
        body = text.split(section, 1)[1].split("\n\n# ", 1)[0]
        found |= set(re.findall(r"^([A-Z_]+_BYTES_(?:MAX|HIGH)) ", body, re.MULTILINE))
    assert len(found) > 15
    assert {name for name in found if f"limits.{name}" not in used} <= ELSEWHERE
    assert found >= ELSEWHERE


@pytest.mark.parametrize("gib", [12, 16, 24, 32, 64, 256])
def test_everything_together_is_less_than_half_of_memory(gib: int) -> None:
    assert accounts.everything_on(gib * GIB) < gib * GIB / 2


@pytest.mark.parametrize("gib", [4, 6, 8, 10])
def test_everything_on_small_machine_leaves_quarter(gib: int) -> None:
    assert accounts.everything_on(gib * GIB) < gib * GIB * 3 / 4


def test_sums_grow_with_memory() -> None:
    totals = [accounts.total_on(size * GIB) for size in range(1, 40)]
    assert totals == sorted(totals)
    assert totals[-1] == accounts.total(0)


def test_broker_counts_connections_with_sums_of_accounts() -> None:
    shared = [account for account in accounts.shared() if account.name != accounts.LOADED_TOPICS]
    scaled = sum(account.bytes_max for account in shared if account.name in accounts.SCALED)
    fixed = sum(account.bytes_max for account in shared if account.name not in accounts.SCALED)
    margin = 64 * accounts.MIB
    assert limits.MEMORY_SCALED_BYTES - margin < scaled <= limits.MEMORY_SCALED_BYTES
    assert limits.MEMORY_FIXED_BYTES - margin < fixed <= limits.MEMORY_FIXED_BYTES
    each = accounts.total(1) - accounts.total(0)
    assert limits.CONNECTION_OWN_BYTES * 0.9 < each <= limits.CONNECTION_OWN_BYTES


def test_accounts_that_shrink_are_those_that_node_shrinks() -> None:
    names = {account.name for account in accounts.shared()}
    assert set(accounts.SCALED) <= names
    text = (Path(limits.__file__).parents[1] / "broker" / "node.py").read_text()
    shrunk = text.count(" share(") + text.count("(share(") + text.count("share_of(size")
    assert shrunk == len(accounts.SCALED)
