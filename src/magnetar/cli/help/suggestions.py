"""Suggests names that are similar to a missing one.

Requests one bounded list from the broker, only after an object was not found. Errors of this request are ignored,
because the user already gets the original error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from magnetar.base.errors import InvalidName, MagnetarError, SubscriptionNotFound
from magnetar.base.names import TopicName, namespace_name, topic_name

if TYPE_CHECKING:
    from magnetar.client.admin.sync.admin import Admin

NAMES_MAX = 1_000  # upper limit of compared names: a person waits, and a similar name is probably among the first
SUGGESTIONS_MAX = 3
ALIKE_MIN = 0.6


@dataclass(frozen=True, slots=True)
class Subject:
    """The object of a command. Unknown parts are None."""

    tenant: str | None = None
    namespace: str | None = None
    topic: str | None = None
    subscription: str | None = None

    @property
    def names(self) -> list[str]:
        """The name of the innermost object of the command, as `-o name` prints it."""
        name = self.subscription or self.topic or self.namespace or self.tenant
        return [name] if name else []


def instead(subject: Subject, names: list[str]) -> str:
    """The next command for the similar `names`. If a plain topic exists where a scalable one was requested, the command
    that shows its subscription, or the one that migrates it.
    """
    name = names[0]
    if subject.topic and _is_plain_twin(name, subject.topic):
        if subject.subscription:
            return f"magnetar subscription show {name} {subject.subscription}, for this plain topic"
        return f"magnetar topic migrate {name} --dry-run, to convert this plain topic to a scalable one"
    return f"the same command with {name}"


def _is_plain_twin(name: str, scalable: str) -> bool:
    """Whether `name` is the plain topic with the name of the `scalable` one. `name` may also be a namespace or a
    tenant.
    """
    topic = topic_name(scalable)
    try:
        twin = topic_name(name)
    except InvalidName:
        return False  # a namespace: its name has two parts
    return topic.is_scalable and not twin.is_scalable and twin.scalable == topic


def near(admin: Admin, subject: Subject, error: MagnetarError) -> list[str]:
    try:
        return _near(admin, subject, error)
    except MagnetarError:
        return []


def _near(admin: Admin, subject: Subject, error: MagnetarError) -> list[str]:
    if is_hold(error):
        return []  # the missing object is not a topic
    if isinstance(error, SubscriptionNotFound) and subject.topic and subject.subscription:
        scalable = topic_name(subject.topic).is_scalable
        names = admin.scalable.subscriptions if scalable else admin.subscriptions.names
        return alike(subject.subscription, names(subject.topic))
    namespace = subject.namespace
    if subject.topic:
        name = topic_name(subject.topic)
        namespace = str(name.namespace)
        if "topic" in error.what.lower():
            return _topics(admin, name)
    tenant = subject.tenant
    if namespace:
        tenant = namespace_name(namespace).tenant
        if "namespace" in error.what.lower() and tenant in admin.tenants.names():
            return alike(namespace, admin.namespaces.names(tenant))
    tenants = alike(tenant, admin.tenants.names()) if tenant else []
    return [f"{one}/{namespace_name(namespace).local_name}" for one in tenants] if namespace else tenants


def _topics(admin: Admin, name: TopicName) -> list[str]:
    """Plain and scalable topics: a user who asks for orders may mean topic://public/default/orders."""
    namespace, local_name = str(name.namespace), name.partitioned.local_name
    domain = "persistent" if name.is_scalable else str(name.domain)
    plain = [topic_name(one) for one in islice(admin.topics.walk(namespace, domain=domain, page=NAMES_MAX), NAMES_MAX)]
    by_part = {one.partitioned.local_name: one.partitioned_name for one in plain}
    try:
        scalable = {topic_name(one).local_name: one for one in admin.scalable.names(namespace)[:NAMES_MAX]}
    except MagnetarError:
        scalable = {}  # the broker does not support scalable topics
    other = by_part if name.is_scalable else scalable
    suggestions = [other[local_name]] if local_name in other else []
    for names in (scalable, by_part) if name.is_scalable else (by_part, scalable):
        suggestions += [names[one] for one in alike(local_name, names)]
    return _shortened(suggestions[:SUGGESTIONS_MAX])


def is_hold(error: MagnetarError) -> bool:
    return error.what.startswith("Hold ")


def alike(name_: str, names: Iterable[str]) -> list[str]:
    candidates = [name for name in names if name != name_]
    matches = get_close_matches(name_, candidates, SUGGESTIONS_MAX, ALIKE_MIN)
    return matches or get_close_matches(name_.lower(), [name for name in candidates if name.islower()], 1, ALIKE_MIN)


def alike_options(option_: str, options: Iterable[str]) -> list[str]:
    """Options are compared without their dashes: these would make every option similar to every other one."""
    names = {option.lstrip("-"): option for option in options}
    return [names[name] for name in get_close_matches(option_.lstrip("-"), names, SUGGESTIONS_MAX, ALIKE_MIN)]


def _shortened(names: Iterable[str]) -> list[str]:
    """Names as users type them."""
    return [name.removeprefix("persistent://public/default/") for name in names]
