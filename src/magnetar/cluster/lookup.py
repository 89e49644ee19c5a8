"""The address for a client of a topic: a decision over the owner of the topic and the requested listener."""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.base.errors import MagnetarError, NotReady
from magnetar.base.names import TopicName
from magnetar.cluster.ownership import Broker, Candidate, Urls


@dataclass(frozen=True, slots=True)
class Connect:
    url: str
    url_tls: str
    http: str = ""
    https: str = ""
    broker: str = ""  # its id


@dataclass(frozen=True, slots=True)
class Redirect:
    """The client repeats the lookup at that broker, with this value of `authoritative`."""

    url: str
    url_tls: str
    authoritative: bool
    http: str = ""
    https: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    error: MagnetarError


def lookup(name: TopicName, listener: str, *, owner: Broker | Candidate) -> Connect | Redirect | Failed:
    """`listener` "" selects the broker's own listener. The owner may be any broker: clients connect to it directly. A
    candidate is returned as an authoritative redirect, so that it acquires the bundle regardless of its own choice."""
    broker = owner.broker if isinstance(owner, Candidate) else owner
    try:
        urls = check_listener(broker, listener)
    except NotReady as error:
        return Failed(NotReady(error.what, **error.facts, topic=str(name)))
    web = broker.urls  # a listener's own web address is rarely given
    http, https = urls.http or web.http, urls.https or web.https
    if isinstance(owner, Candidate):
        return Redirect(urls.broker, urls.broker_tls, True, http, https)
    return Connect(urls.broker, urls.broker_tls, http, https, broker.id)


def check_listener(broker: Broker, listener: str) -> Urls:
    """The addresses of the broker's listener. NotReady: the broker does not have it."""
    urls = broker.at(listener)
    if urls is None or not (urls.broker or urls.broker_tls):
        # Stock clients look for these words; with others they would ask until their timeout (SC-A3).
        raise NotReady(f"the broker do not have {listener} listener", broker=broker.id)
    return urls
