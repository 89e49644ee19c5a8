"""However few descriptors there are, files keep theirs and each door has at least one."""

from __future__ import annotations

import pytest

from magnetar.base.limits import DESCRIPTORS_KEPT_MIN, HTTP_CONNECTIONS_MAX
from magnetar.broker.sockets import shared_out


@pytest.mark.parametrize("descriptors", [128, 256, 1024, 4096, 20_000, 1 << 20])
def test_connections_of_both_doors_leave_room_for_files(descriptors: int) -> None:
    found = shared_out(descriptors)
    assert descriptors - found.clients - found.web >= max(DESCRIPTORS_KEPT_MIN, descriptors // 4)
    assert found.clients >= found.web >= 1
    assert found.web <= HTTP_CONNECTIONS_MAX


def test_a_process_that_may_open_nothing_still_lets_one_in_at_each_door() -> None:
    found = shared_out(8)
    assert (found.clients, found.web) == (1, 1)
