"""Where to connect, by owner and listener; and how listeners are written."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.bundles import Bundle
from magnetar.base.errors import Misuse, NotReady
from magnetar.base.names import namespace_name, topic_name
from magnetar.cluster.lookup import Connect, Failed, lookup
from magnetar.cluster.ownership import Alone, Broker, Urls, advertised

NAME = topic_name("persistent://public/default/t")
ME = Broker(
    "localhost:8080",
    Urls("pulsar://localhost:6650", "", "http://localhost:8080"),
    advertised("external:pulsar://broker.example:6650, external:pulsar+ssl://broker.example:6651, web:http://x:1"),
)


def test_the_owner_is_where_to_connect() -> None:
    assert lookup(NAME, "", owner=ME) == Connect("pulsar://localhost:6650", "", "http://localhost:8080")
    assert lookup(NAME, "external", owner=ME) == Connect(
        "pulsar://broker.example:6650", "pulsar+ssl://broker.example:6651"
    )


@pytest.mark.parametrize("listener", ["nosuch", "web"])
def test_an_unknown_listener_fails_in_the_words_clients_look_for(listener: str) -> None:
    verdict = lookup(NAME, listener, owner=ME)
    assert isinstance(verdict, Failed)
    assert isinstance(verdict.error, NotReady)
    assert f"the broker do not have {listener} listener" in str(verdict.error)


def test_without_an_owner_the_client_asks_again() -> None:
    verdict = lookup(NAME, "", owner=None)
    assert isinstance(verdict, Failed)
    assert "Failed to acquire ownership" in str(verdict.error)  # stock clients keep their connection on these words


def test_a_broker_that_is_alone_owns_everything() -> None:
    async def body() -> None:
        alone = Alone(ME)
        bundle = Bundle(0, 0xFFFFFFFF)
        namespace = namespace_name("public/default")
        assert await alone.owner(namespace, bundle) is ME
        await alone.release(namespace, bundle)
        assert await alone.owns(namespace, bundle)
        await alone.close()

    asyncio.run(body())


@pytest.mark.parametrize("text", ["external", "external:", ":pulsar://h:1", "external:ftp://h:1", "a:pulsar://"])
def test_listeners_of_the_wrong_form_are_refused(text: str) -> None:
    with pytest.raises(Misuse, match="advertisedListeners"):
        advertised(text)


def test_no_listeners_are_fine() -> None:
    assert advertised("") == {}
