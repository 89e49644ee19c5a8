"""Finds the object that a rejected request names, and the next command: error texts of Pulsar often have neither.

Pure: takes a subject and an error, returns a hint. The first noun in the error text that the command has a name for is
the object. Without such a noun, the hint stays empty.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from magnetar.base.errors import (
    AlreadyExists,
    Conflict,
    MagnetarError,
    NotAuthenticated,
    NotAuthorized,
    NotBuilt,
    NotFound,
)
from magnetar.base.names import namespace_name, topic_name
from magnetar.cli.help.suggestions import Subject, is_hold

_DEFAULT = "persistent://public/default/"


@dataclass(frozen=True, slots=True)
class Hint:
    """`name`: the object, if the error text does not name it. `run`: the next command. Both may be empty."""

    name: str = ""
    run: str = ""


def advise(subject: Subject, error: MagnetarError) -> Hint:
    if isinstance(error, NotAuthenticated | NotAuthorized | NotBuilt):
        return Hint()  # concerns the caller or a missing feature, not a name
    words = error.what.lower()
    names = _names(subject)
    if is_hold(error) and "topic" in names:
        return Hint(run=f"magnetar hold list {shlex.quote(names['topic'])}")
    if "segment" in words and "topic" in names:
        return Hint(run=f"magnetar segment list {shlex.quote(names['topic'])}")
    mentioned = sorted((words.find(noun), noun) for noun in names if noun in words)
    if not mentioned:
        return Hint(run="magnetar api GET /admin/v2/clusters" if "cluster" in words else "")
    noun = mentioned[0][1]
    name = names[noun]
    is_said = re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", words) is not None
    return Hint("" if is_said else name, _run(noun, names, error))


def _names(subject: Subject) -> dict[str, str]:
    """Names by noun, as users type them. A topic implies its namespace, and a namespace its tenant."""
    names: dict[str, str] = {}
    namespace, tenant = subject.namespace, subject.tenant
    if subject.topic:
        names["topic"] = subject.topic.removeprefix(_DEFAULT)
        namespace = str(topic_name(subject.topic).namespace)
        if subject.subscription:
            names["subscription"] = subject.subscription
    if namespace:
        names["namespace"] = namespace
        tenant = namespace_name(namespace).tenant
    if tenant:
        names["tenant"] = tenant
    return names


def _run(noun: str, names: dict[str, str], error: MagnetarError) -> str:
    typed = {each: shlex.quote(name) for each, name in names.items()}
    argument = typed[noun]
    if noun == "subscription":
        argument = f"{typed['topic']} {argument}"
    match error:
        case NotFound():
            place = {"tenant": "", "namespace": "tenant", "topic": "namespace", "subscription": "topic"}[noun]
            inside = f" {typed[place]}" if place else ""
            return f"magnetar {noun} list{inside}, or magnetar {noun} create {argument}"
        case AlreadyExists():
            return f"magnetar {noun} show {argument}"
        case Conflict() if noun in ("tenant", "namespace"):
            held = "namespace" if noun == "tenant" else "topic"
            return f"magnetar {held} list {argument}, or the same command with --force to delete each {held} too"
        case Conflict():
            return f"magnetar {noun} show {argument}"
        case _:
            return ""
