"""What a refusal was about, and what to run next: the broker's words are Pulsar's and often name neither.

Pure: a subject and an error in, words out. The noun that the words speak of first and that the command has a name for
is what they mean. It guesses nothing where they speak of none.
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
from magnetar.cli.nearby import Subject, is_hold

_DEFAULT = "persistent://public/default/"


@dataclass(frozen=True, slots=True)
class Advice:
    """`name`: what it is about, where the words do not say it. `run`: the next command. "" where there is none."""

    name: str = ""
    run: str = ""


def advise(subject: Subject, error: MagnetarError) -> Advice:
    if isinstance(error, NotAuthenticated | NotAuthorized | NotBuilt):
        return Advice()  # about who asks or what there is, not about a name
    words = error.what.lower()
    names = _names(subject)
    if is_hold(error) and "topic" in names:
        return Advice(run=f"magnetar hold list {shlex.quote(names['topic'])}")
    if "segment" in words and "topic" in names:
        return Advice(run=f"magnetar segment list {shlex.quote(names['topic'])}")
    said = sorted((words.find(noun), noun) for noun in names if noun in words)
    if not said:
        return Advice(run="magnetar api GET /admin/v2/clusters" if "cluster" in words else "")
    noun = said[0][1]
    name = names[noun]
    is_said = re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", words) is not None
    return Advice("" if is_said else name, _run(noun, names, error))


def _names(subject: Subject) -> dict[str, str]:
    """By noun, as people type them; a topic has a namespace and that a tenant."""
    found: dict[str, str] = {}
    namespace, tenant = subject.namespace, subject.tenant
    if subject.topic:
        found["topic"] = subject.topic.removeprefix(_DEFAULT)
        namespace = str(topic_name(subject.topic).namespace)
        if subject.subscription:
            found["subscription"] = subject.subscription
    if namespace:
        found["namespace"] = namespace
        tenant = namespace_name(namespace).tenant
    if tenant:
        found["tenant"] = tenant
    return found


def _run(noun: str, names: dict[str, str], error: MagnetarError) -> str:
    typed = {each: shlex.quote(name) for each, name in names.items()}
    one = typed[noun]
    if noun == "subscription":
        one = f"{typed['topic']} {one}"
    match error:
        case NotFound():
            place = {"tenant": "", "namespace": "tenant", "topic": "namespace", "subscription": "topic"}[noun]
            inside = f" {typed[place]}" if place else ""
            return f"magnetar {noun} list{inside}, or magnetar {noun} create {one}"
        case AlreadyExists():
            return f"magnetar {noun} show {one}"
        case Conflict() if noun in ("tenant", "namespace"):
            held = "namespace" if noun == "tenant" else "topic"
            return f"magnetar {held} list {one}, or the same with --force to delete what it holds"
        case Conflict():
            return f"magnetar {noun} show {one}"
        case _:
            return ""
