"""A broker that is alone, and how listeners are written."""

from __future__ import annotations

import pytest

from magnetar.base.bundles import Bundle
from magnetar.base.errors import Misuse
from magnetar.base.names import namespace_name
from magnetar.cluster.ownership import Broker, SoleOwnership, Urls, advertised

ME = Broker("localhost:8080", Urls("pulsar://localhost:6650", "", "http://localhost:8080"))


@pytest.mark.real_clock
async def test_broker_that_is_alone_owns_everything() -> None:
    alone = SoleOwnership(Broker("", Urls()))
    await alone.start(ME)
    place = namespace_name("public/default"), Bundle(0, 0xFFFFFFFF)
    emptied: list[bool] = []

    async def empty() -> None:
        emptied.append(True)

    assert await alone.owner(*place) is ME
    await alone.release(*place, empty)
    assert emptied == [True]
    assert await alone.owns(*place)
    assert await alone.known(*place) is ME
    assert await alone.brokers() == [ME]
    assert alone.held() == []
    assert alone.steady
    await alone.leave()
    await alone.close()


@pytest.mark.parametrize("text", ["external", "external:", ":pulsar://h:1", "external:ftp://h:1", "a:pulsar://"])
def test_listeners_of_wrong_form_are_refused(text: str) -> None:
    with pytest.raises(Misuse, match="advertisedListeners"):
        advertised(text)


def test_no_listeners_are_fine() -> None:
    assert advertised("") == {}
