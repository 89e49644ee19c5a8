"""Names of topics and namespaces: parsed once, immutable, compared cheaply.

Knows `persistent://` and `non-persistent://` topics with their short forms and partitions, scalable topics
(`topic://`) and their segments (`segment://`). Names with a cluster part are refused, as is whatever else Pulsar
refuses: `InvalidName` says why. Where a thing is stored is decided elsewhere; the forms that others' paths and
routes need are computed here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from urllib.parse import quote_plus, unquote_plus

from magnetar.base.errors import InvalidName, InvalidRange, LimitExceeded
from magnetar.base.hashes import utf8
from magnetar.base.limits import (
    GIVEN_NAME_CHARS_MAX,
    NAME_CACHED_CHARS_MAX,
    NAME_CACHED_WIDE_CHARS_MAX,
    NAMES_CACHED_MAX,
    TOPIC_NAME_CHARS_MAX,
)
from magnetar.base.ranges import HashRange, slot_from_hex

PUBLIC_TENANT = "public"
DEFAULT_NAMESPACE = "default"
PARTITION_SUFFIX = "-partition-"
SINK_PREFIX = "__sink-"  # producers that write and publish stages: what they stored is known whatever the settings say
STAGE_PREFIX = "__stage-"  # topics that hold what a sink has not published yet: made, read and deleted by brokers alone

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ENTITY = re.compile(r"[-=:.\w]+", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1
# What Java takes for white space; Python's idea of it differs (no-break spaces, U+0085).
_BLANKS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f \u1680\u2028\u2029\u205f\u3000") | {
    chr(code) for code in range(0x2000, 0x200B) if code != 0x2007
}


class Domain(StrEnum):
    PERSISTENT = "persistent"
    NON_PERSISTENT = "non-persistent"
    TOPIC = "topic"  # a scalable topic
    SEGMENT = "segment"  # a segment of one


_DOMAINS = {str(domain): domain for domain in Domain}


@dataclass(frozen=True, slots=True)
class NamespaceName:
    text: str
    tenant: str = field(compare=False)
    local_name: str = field(compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Segment:
    """What the last part of a segment's name says."""

    range: HashRange
    id: int

    def __str__(self) -> str:
        return f"{self.range.hex}-{self.id}"


@dataclass(frozen=True, slots=True)
class TopicName:
    """One topic, partition, scalable topic or segment. Two spellings of one name (`Persistent://`) are equal."""

    canonical: str
    text: str = field(compare=False, repr=False)  # as the client wrote it, completed
    domain: Domain = field(compare=False, repr=False)
    namespace: NamespaceName = field(compare=False, repr=False)
    local_name: str = field(compare=False, repr=False)  # of a segment: that of its topic
    partition_index: int = field(compare=False, repr=False)  # -1: not a partition
    segment: Segment | None = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def tenant(self) -> str:
        return self.namespace.tenant

    @property
    def is_persistent(self) -> bool:
        return self.domain is not Domain.NON_PERSISTENT

    @property
    def is_partition(self) -> bool:
        return self.partition_index >= 0

    @property
    def is_scalable(self) -> bool:
        return self.domain is Domain.TOPIC

    @property
    def is_segment(self) -> bool:
        return self.segment is not None

    @property
    def is_stage(self) -> bool:
        return self.domain is Domain.PERSISTENT and self.local_name.startswith(STAGE_PREFIX)

    @property
    def encoded_local_name(self) -> str:
        return encode(self.local_name)

    @property
    def ledger_name(self) -> str:
        """The managed ledger's name; below `/managed-ledgers` it is its path, as long as buckets are not used."""
        if self.domain is Domain.TOPIC:
            return f"{self.namespace}/{self.encoded_local_name}"
        tail = "" if self.segment is None else f"/{self.segment}"
        return f"{self.namespace}/{self.domain}/{self.encoded_local_name}{tail}"

    @property
    def partitioned_name(self) -> str:
        """The name without the partition's suffix; the name itself if it is no partition."""
        if self.partition_index < 0:
            return self.text
        return self.text[: self.text.rindex(PARTITION_SUFFIX)]

    @property
    def partitioned(self) -> TopicName:
        return topic_name(self.partitioned_name)

    @property
    def schema_name(self) -> str:
        """Where the schemas of this topic, all its partitions and all its segments are kept."""
        base = self.partitioned
        return f"{base.namespace}/{base.encoded_local_name}"

    @property
    def parent(self) -> TopicName:
        """The scalable topic of a segment."""
        if self.segment is None:
            raise InvalidName("only a segment has a parent", topic=self.text)
        return topic_name(f"{Domain.TOPIC}://{self.namespace}/{self.local_name}")

    @property
    def scalable(self) -> TopicName:
        """The scalable topic that stands for this one. Pulsar encodes the local name on the way, and so does this."""
        if self.domain is Domain.TOPIC:
            return self
        return topic_name(f"{Domain.TOPIC}://{self.namespace}/{self.partitioned.encoded_local_name}")

    def partition(self, index: int) -> TopicName:
        if self.partition_index >= 0:
            raise InvalidName("a partition has no partitions", topic=self.text)
        if not 0 <= index <= _INT32_MAX:
            raise InvalidName("not a partition", topic=self.text, index=index)
        return topic_name(f"{self.text}{PARTITION_SUFFIX}{index}")


def topic_name(text: str) -> TopicName:
    """Parse a full name, or complete `topic` and `tenant/namespace/topic` to persistent ones."""
    return _kept_topic_name(text) if _is_short(text) else _topic_name(text)


def _topic_name(text: str) -> TopicName:
    if len(text) > TOPIC_NAME_CHARS_MAX:
        raise InvalidName("a topic name is too long", chars=len(text), chars_max=TOPIC_NAME_CHARS_MAX)
    given, scheme, rest = text.partition("://")
    if not scheme:
        return _short_name(text)
    domain = _DOMAINS.get(given.lower())
    if domain is None:
        raise InvalidName("unknown topic domain", domain=given)
    parts = rest.split("/", 2)
    if len(parts) < 3 or not parts[2]:
        raise InvalidName("a topic name is <domain>://tenant/namespace/topic", topic=text)
    tenant, namespace, local_name = parts
    segment: Segment | None = None
    if domain is Domain.SEGMENT:
        local_name, segment = _segment_parts(local_name, text)
    elif domain is not Domain.TOPIC and "/" in local_name:
        raise InvalidName("names with a cluster part are not supported, use tenant/namespace/topic", topic=text)
    if _is_blank(local_name):
        raise InvalidName("the topic part of a name must not be blank", topic=text)
    where = namespace_name(f"{tenant}/{namespace}")
    tail = f"{where}/{local_name}" if segment is None else f"{where}/{local_name}/{segment}"
    canonical = f"{domain}://{tail}"
    return TopicName(
        canonical=canonical,
        text=canonical if given == domain else f"{given}://{tail}",
        domain=domain,
        namespace=where,
        local_name=local_name,
        partition_index=_partition_index(local_name),
        segment=segment,
    )


def namespace_name(text: str) -> NamespaceName:
    return _kept_namespace_name(text) if _is_short(text) else _namespace_name(text)


def _namespace_name(text: str) -> NamespaceName:
    if len(text) > TOPIC_NAME_CHARS_MAX:
        raise InvalidName("a namespace name is too long", chars=len(text), chars_max=TOPIC_NAME_CHARS_MAX)
    tenant, slash, local_name = text.partition("/")
    if not slash or not tenant or not local_name:
        raise InvalidName("a namespace is tenant/namespace", namespace=text)
    if "/" in local_name:
        raise InvalidName("names with a cluster part are not supported, use tenant/namespace", namespace=text)
    return NamespaceName(text, check_entity(tenant), check_entity(local_name))


_kept_topic_name = lru_cache(maxsize=NAMES_CACHED_MAX)(_topic_name)
_kept_namespace_name = lru_cache(maxsize=NAMES_CACHED_MAX)(_namespace_name)


def _is_short(text: str) -> bool:
    """Is it worth its place? Clients choose names, and a name is kept four times."""
    return len(text) <= (NAME_CACHED_CHARS_MAX if text.isascii() else NAME_CACHED_WIDE_CHARS_MAX)


def forget_names() -> None:
    """Names that were parsed are parsed again: for whoever wants the memory of topics that are gone."""
    _kept_topic_name.cache_clear()
    _kept_namespace_name.cache_clear()


def check_entity(name: str) -> str:
    """Tenants, namespaces, clusters: ASCII letters, digits and `-=:._`."""
    if not _ENTITY.fullmatch(name):
        raise InvalidName("not a name: only letters, digits and -=:._ are allowed", name=name)
    return name


def check_new(*names: str) -> None:
    """Tenants, namespaces and topics that are to be made: no part of their names is `.` or `..`, which paths mean
    otherwise, and no character moves a terminal's cursor. Those that exist already stay as they are."""
    for name in names:
        if any(part in (".", "..") for part in name.split("/")):
            raise InvalidName("`.` and `..` are no names: choose another one", name=name)
        if _CONTROLS.search(name):
            raise InvalidName("a name holds no control characters: choose another one", name=ascii(name))


def check_given(name: str, what: str) -> str:
    """Subscriptions, producers, consumers: clients call them as they like, but not by a book."""
    if len(name) > GIVEN_NAME_CHARS_MAX:
        text = f"the name of a {what} has at most {GIVEN_NAME_CHARS_MAX} characters"
        raise LimitExceeded(text, chars=len(name), chars_max=GIVEN_NAME_CHARS_MAX)
    return name


def segment_name(parent: TopicName, range: HashRange, id: int) -> TopicName:
    if parent.domain is not Domain.TOPIC:
        raise InvalidName("only a scalable topic has segments", topic=parent.text)
    if not 0 <= id <= _INT64_MAX:
        raise InvalidName("not a segment id", id=id)
    return topic_name(f"{Domain.SEGMENT}://{parent.namespace}/{parent.local_name}/{Segment(range, id)}")


def full_name(text: str) -> str:
    """Complete a name without reading into it: the form in which the Java client keeps names of plain topics."""
    given, scheme, rest = text.partition("://")
    if not scheme:
        return topic_name(text).text
    if given.lower() not in _DOMAINS:
        raise InvalidName("unknown topic domain", domain=given)
    parts = rest.split("/")
    if len(parts) != 3 or _is_blank(parts[2]):
        raise InvalidName("a topic name is <domain>://tenant/namespace/topic", topic=text)
    check_entity(parts[0])
    check_entity(parts[1])
    return text


def topic_of_ledger(ledger_name: str) -> str:
    """The topic whose managed ledger has this name. Names that once had a cluster part are read without it."""
    if not ledger_name:
        return ""
    parts = ledger_name.split("/")
    if len(parts) == 5 and parts[2] == Domain.SEGMENT:
        return f"{Domain.SEGMENT}://{parts[0]}/{parts[1]}/{decode(parts[3])}/{parts[4]}"
    if len(parts) == 5:
        return f"{parts[3]}://{parts[0]}/{parts[2]}/{decode(parts[4])}"
    if len(parts) == 4:
        return f"{parts[2]}://{parts[0]}/{parts[1]}/{decode(parts[3])}"
    raise InvalidName("not the name of a managed ledger", name=ledger_name)


def encode(text: str) -> str:
    """Form encoding as Java's URLEncoder writes it: the last part of metadata paths and routes, and cursor names."""
    return quote_plus(utf8(text), safe="*").replace("~", "%7E")


def decode(text: str) -> str:
    """The inverse of `encode`."""
    if _BAD_ESCAPE.search(text):
        raise InvalidName("a broken % escape", text=text)
    return unquote_plus(text, errors="replace")


def _short_name(text: str) -> TopicName:
    parts = text.split("/")
    scheme = parts[0].removesuffix(":")
    if len(parts) > 1 and scheme != parts[0] and scheme.lower() in _DOMAINS:
        raise InvalidName(f"a slash is missing behind {parts[0]}: write {scheme}://tenant/namespace/topic", topic=text)
    if len(parts) == 1:
        return topic_name(f"{Domain.PERSISTENT}://{PUBLIC_TENANT}/{DEFAULT_NAMESPACE}/{text}")
    if len(parts) == 3:
        return topic_name(f"{Domain.PERSISTENT}://{text}")
    raise InvalidName("a short topic name is topic or tenant/namespace/topic", topic=text)


def _segment_parts(rest: str, text: str) -> tuple[str, Segment]:
    local_name, _, descriptor = rest.rpartition("/")
    parts = descriptor.split("-")
    if not local_name or len(parts) != 3:
        raise InvalidName("a segment is named <topic>/<hash start>-<hash end>-<segment id>", topic=text)
    digits = parts[2].removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()) or int(digits) > _INT64_MAX:
        raise InvalidName("not a segment id", topic=text)
    try:
        return local_name, Segment(HashRange(slot_from_hex(parts[0]), slot_from_hex(parts[1])), int(digits))
    except InvalidRange as error:
        raise InvalidName("a segment's name has no valid hash range", topic=text, why=error.what) from None


def _partition_index(local_name: str) -> int:
    """What follows the last suffix, if it is a number as Java would print it; Java knows digits of other scripts
    too.
    """
    _, suffix, digits = local_name.rpartition(PARTITION_SUFFIX)
    if not suffix or not digits.isdecimal() or len(digits) > 10 or max(digits) > "\uffff":
        return -1
    index = int(digits)
    return index if index <= _INT32_MAX and len(str(index)) == len(digits) else -1


def _is_blank(text: str) -> bool:
    return all(character in _BLANKS for character in text)
