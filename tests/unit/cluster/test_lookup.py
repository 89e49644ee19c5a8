"""Where to connect, by owner and listener."""

from __future__ import annotations

import pytest

from magnetar.base.errors import NotReady
from magnetar.base.names import topic_name
from magnetar.cluster.lookup import Connect, Failed, Redirect, lookup
from magnetar.cluster.ownership import Broker, Candidate, Urls, advertised

NAME = topic_name("persistent://public/default/t")
ME = Broker(
    "localhost:8080",
    Urls("pulsar://localhost:6650", "", "http://localhost:8080"),
    advertised("external:pulsar://broker.example:6650, external:pulsar+ssl://broker.example:6651, web:http://x:1"),
)


def test_owner_is_where_to_connect() -> None:
    web = "http://localhost:8080"
    assert lookup(NAME, "", owner=ME) == Connect("pulsar://localhost:6650", "", web, "", "localhost:8080")
    assert lookup(NAME, "external", owner=ME) == Connect(
        "pulsar://broker.example:6650", "pulsar+ssl://broker.example:6651", web, "", "localhost:8080"
    )


def test_candidate_is_asked_with_authority_where_client_can_reach_it() -> None:
    web = "http://localhost:8080"
    assert lookup(NAME, "", owner=Candidate(ME)) == Redirect("pulsar://localhost:6650", "", True, web)
    verdict = lookup(NAME, "external", owner=Candidate(ME))
    assert verdict == Redirect("pulsar://broker.example:6650", "pulsar+ssl://broker.example:6651", True, web)
    assert isinstance(lookup(NAME, "nosuch", owner=Candidate(ME)), Failed)


@pytest.mark.parametrize("listener", ["nosuch", "web"])
def test_unknown_listener_fails_in_words_clients_look_for(listener: str) -> None:
    verdict = lookup(NAME, listener, owner=ME)
    assert isinstance(verdict, Failed)
    assert isinstance(verdict.error, NotReady)
    assert f"the broker do not have {listener} listener" in str(verdict.error)
