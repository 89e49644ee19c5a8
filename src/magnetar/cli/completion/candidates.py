"""Completes names that a broker knows: the REST paths to request for a kind of name, and the names in the responses.

Pure: takes the typed text and returns REST paths; takes documents and returns words. Topics appear as users type them:
short in public/default, `tenant/namespace/` step by step elsewhere, or complete after `://`. A response of an
unexpected form offers no names. Names that are unsafe on a terminal are omitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from magnetar.cli.completion.engine import Candidate

NAMES_MAX = 1_000  # limit per request; longer lists are of little use on a screen
ROOT = "/admin/v2"
HOME = "public/default"
KINDS = ("tenant", "namespace", "topic", "scalable", "subscription", "segment")


class RestQuery(NamedTuple):
    """`of` is the kind of the listed objects. `before` is the prefix of each offered name."""

    path: str
    of: str
    before: str = ""


def questions(kind: str, word: str, topic: str = "") -> list[RestQuery]:
    """`topic` is the topic named earlier on the line, for kinds that belong to a topic."""
    queries = _questions(kind, word, topic)
    return [one for one in queries if not {".", ".."} & set(one.path.partition("?")[0].split("/"))]


def further(question: RestQuery, word: str, names: int) -> RestQuery | None:
    """For a list that exceeds the limit: a request that starts at the typed text."""
    if names < NAMES_MAX or "?limit=" not in question.path:
        return None
    whole = word if "://" in word else f"persistent://{HOME}/{word}" if "/" not in word else f"persistent://{word}"
    return question._replace(path=f"{question.path}&after={quote(whole, safe='')}")


def offered(question: RestQuery, document: Any, word: str) -> list[Candidate]:
    """Names that begin with the typed text, in order, each once."""
    texts: dict[str, str] = {}
    for name, text in _names(question, document):
        if name.startswith(word) and name.isprintable():
            texts.setdefault(name, text)
    return sorted(texts.items())


def _questions(kind: str, word: str, topic: str) -> list[RestQuery]:
    match kind:
        case "tenant":
            return [RestQuery(f"{ROOT}/tenants", "tenants")]
        case "namespace":
            tenant, slash, _ = word.partition("/")
            if slash:
                return [RestQuery(f"{ROOT}/namespaces/{_part(tenant)}", "namespaces")]
            return [RestQuery(f"{ROOT}/tenants", "folders")]
        case "topic" | "scalable":
            return list(_of_topics(word, scalable_only=kind == "scalable"))
        case "subscription" | "segment" if topic:
            return list(_of_a_topic(kind, topic))
        case _:
            return []


def _of_topics(word: str, *, scalable_only: bool) -> Iterator[RestQuery]:
    domain, mark, rest = word.rpartition("://")
    parts = (rest if mark else word).split("/", 2)
    before = f"{domain}{mark}"
    if mark and domain not in ("persistent", "non-persistent", "topic"):
        return
    if len(parts) == 1 and not mark:
        if not scalable_only:
            yield RestQuery(_topics("persistent", HOME), "topics")
        yield RestQuery(f"{ROOT}/scalable/{HOME}", "topics" if scalable_only else "full")
    if len(parts) == 1:
        yield RestQuery(f"{ROOT}/tenants", "folders", before)
    elif len(parts) == 2:
        yield RestQuery(f"{ROOT}/namespaces/{_part(parts[0])}", "folders", before)
    elif domain == "topic" or (scalable_only and not mark):
        where = f"{_part(parts[0])}/{_part(parts[1])}"
        yield RestQuery(f"{ROOT}/scalable/{where}", "full" if mark else "topics", f"{parts[0]}/{parts[1]}/")
    elif not scalable_only:
        where = f"{_part(parts[0])}/{_part(parts[1])}"
        yield RestQuery(_topics(domain or "persistent", where), "full" if mark else "topics", f"{parts[0]}/{parts[1]}/")


def _of_a_topic(kind: str, topic: str) -> Iterator[RestQuery]:
    domain, mark, rest = topic.rpartition("://")
    parts = (rest if mark else topic if "/" in topic else f"{HOME}/{topic}").split("/", 2)
    if len(parts) != 3:
        return
    where = "/".join(_part(part) for part in parts)
    if kind == "segment":
        yield RestQuery(f"{ROOT}/scalable/{where}", "segments")
        return
    if domain in ("", "topic"):  # a short name can belong to either kind
        yield RestQuery(f"{ROOT}/scalable/{where}/stats", "subscribers")
    if domain != "topic":
        yield RestQuery(f"{ROOT}/{domain or 'persistent'}/{where}/subscriptions", "names")


def _topics(domain: str, where: str) -> str:
    return f"{ROOT}/{domain}/{where}?limit={NAMES_MAX}"


def _names(question: RestQuery, document: Any) -> Iterator[Candidate]:
    match question.of, document:
        case "segments", {"segments": dict(segments)}:
            yield from _segments(segments)
        case "subscribers", {"subscriptions": dict(subscriptions)}:
            yield from ((name, "") for name in subscriptions)
        case "topics" | "full" | "folders" | "tenants" | "namespaces" | "names", list(names):
            for name in names:
                if isinstance(name, str):
                    yield _name(question, name), ""
        case _:
            return


def _name(question: RestQuery, name: str) -> str:
    match question.of:
        case "folders":
            return f"{question.before}{name}/"
        case "topics":
            local = _whole(name).rpartition("://")[2].split("/", 2)[-1]
            return f"{question.before}{local}"
        case "full":
            return _whole(name)
        case _:
            return name


def _whole(name: str) -> str:
    """The topic that a partition belongs to."""
    stem, mark, number = name.rpartition("-partition-")
    return stem if mark and number.isdigit() else name


def _segments(segments: dict[str, Any]) -> Iterator[Candidate]:
    """Active segments with their ranges: only these can be split or merged."""
    for segment in segments.values():
        match segment:
            case {"segmentId": int(number), "state": "ACTIVE", **rest}:
                bounds = rest.get("hashRange")
                text = ""
                if isinstance(bounds, dict) and isinstance(bounds.get("start"), int):
                    text = f"{bounds['start']:04x}-{bounds.get('end', 0):04x}"
                yield str(number), text
            case _:
                continue


def _part(text: str) -> str:
    return quote(text, safe="")
