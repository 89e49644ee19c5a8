"""The sum of everything that peers can make a broker hold is known, and the document states it."""

from __future__ import annotations

import re
from pathlib import Path

from magnetar.base import limits
from tools import memory_accounts as accounts

DOCUMENT = Path(__file__).parents[2] / "docs" / "OPERATING.md"
# Bytes that no peer decides, or a part of another account.
ELSEWHERE = {
    "COMMAND_BYTES_MAX",
    "CONNECTION_KEPT_BYTES_MAX",
    "CONNECTION_PENDING_BYTES_MAX",
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


def test_document_states_the_computed_sum() -> None:
    assert accounts.table() in DOCUMENT.read_text(), "write tools.memory_accounts.table() to docs/OPERATING.md"


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


def test_every_limit_of_bytes_of_peers_has_an_account() -> None:
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


def test_shared_accounts_are_a_part_of_the_memory() -> None:
    """Less than a third of it where the machine has enough, and less than a half of 4 GiB."""
    assert accounts.total_on(limits.MEMORY_FULL_BYTES) == accounts.total(0)
    assert accounts.total(0) < limits.MEMORY_FULL_BYTES / 3
    assert accounts.total_on(4 * 1024 * accounts.MIB) < 2 * 1024 * accounts.MIB
    totals = [accounts.total_on(size * 1024 * accounts.MIB) for size in range(1, 20)]
    assert totals == sorted(totals)


def test_accounts_that_shrink_are_those_that_the_node_shrinks() -> None:
    names = {account.name for account in accounts.shared()}
    assert set(accounts.SCALED) <= names
    text = (Path(limits.__file__).parents[1] / "broker" / "node.py").read_text()
    shrunk = text.count(" share(") + text.count("(share(") + text.count("share_of(size")
    assert shrunk == len(accounts.SCALED) + 1  # and the number of loaded topics


def test_connection_holds_little_beyond_its_part_of_the_sums() -> None:
    assert accounts.total(1) - accounts.total(0) < 8 * accounts.MIB
