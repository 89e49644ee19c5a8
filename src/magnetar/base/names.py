"""Names of topics and namespaces: parsed once, immutable, compared cheaply.

Supports `persistent://` and `non-persistent://` topics with short forms and partitions, scalable topics (`topic://`)
and their segments (`segment://`). Names with a cluster part and all other names that Pulsar rejects raise `InvalidName`
with the reason. It does not decide where data is stored, but computes the name forms for Pulsar's paths and routes.
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
    NAME_BYTES_MAX,
    NAME_CACHED_CHARS_MAX,
    NAME_CACHED_WIDE_CHARS_MAX,
    NAMES_CACHED_MAX,
    TOPIC_NAME_CHARS_MAX,
)
from magnetar.base.ranges import HashRange, slot_from_hex

PUBLIC_TENANT = "public"
DEFAULT_NAMESPACE = "default"
PARTITION_SUFFIX = "-partition-"
# producers that write and publish stages: the broker always tracks their stored messages, for any configuration
SINK_PREFIX = "__sink-"
STAGE_PREFIX = "__stage-"  # topics with the unpublished messages of a sink: only brokers create, read and delete them

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SEGMENT_SUFFIX = re.compile(r"-seg-[0-9]{1,19}\Z")
_ENTITY = re.compile(r"[-=:.\w]+", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1
# Java's white space; Python's definition differs (no-break spaces, U+0085).
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
    """The parts of a segment's last name component."""

    range: HashRange
    id: int

    def __str__(self) -> str:
        return f"{self.range.hex}-{self.id}"


@dataclass(frozen=True, slots=True)
class TopicName:
    """One topic, partition, scalable topic or segment. Two spellings of one name (`Persistent://`) are equal."""

    canonical: str
    text: str = field(compare=False, repr=False)  # the client's spelling, completed
    domain: Domain = field(compare=False, repr=False)
    namespace: NamespaceName = field(compare=False, repr=False)
    local_name: str = field(compare=False, repr=False)  # for a segment: that of its topic
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
        """The name of the managed ledger; below `/managed-ledgers` it is also its path, unless buckets are used."""
        if self.domain is Domain.TOPIC:
            return f"{self.namespace}/{self.encoded_local_name}"
        tail = "" if self.segment is None else f"/{self.segment}"
        return f"{self.namespace}/{self.domain}/{self.encoded_local_name}{tail}"

    @property
    def partitioned_name(self) -> str:
        """The name without the partition suffix; the name itself if it is not a partition."""
        if self.partition_index < 0:
            return self.text
        return self.text[: self.text.rindex(PARTITION_SUFFIX)]

    @property
    def partitioned(self) -> TopicName:
        return topic_name(self.partitioned_name)

    @property
    def schema_name(self) -> str:
        """The key of schemas of this topic, all its partitions and all its segments."""
        base = self.partitioned
        return f"{base.namespace}/{base.encoded_local_name}"

    @property
    def parent(self) -> TopicName:
        """The scalable topic of a segment."""
        if self.segment is None:
            raise InvalidName("expected a segment: only segments have a parent", topic=self.text)
        return topic_name(f"{Domain.TOPIC}://{self.namespace}/{self.local_name}")

    @property
    def scalable(self) -> TopicName:
        """The scalable topic that replaces this one. Pulsar encodes the local name here, and so does this."""
        if self.domain is Domain.TOPIC:
            return self
        return topic_name(f"{Domain.TOPIC}://{self.namespace}/{self.partitioned.encoded_local_name}")

    def partition(self, index: int) -> TopicName:
        if self.partition_index >= 0:
            raise InvalidName("a partition cannot have partitions", topic=self.text)
        if not 0 <= index <= _INT32_MAX:
            raise InvalidName("expected a partition", topic=self.text, index=index)
        return topic_name(f"{self.text}{PARTITION_SUFFIX}{index}")


def topic_name(text: str) -> TopicName:
    """Parses a full name, or completes `topic` and `tenant/namespace/topic` to persistent ones."""
    return _kept_topic_name(text) if _is_short(text) else _topic_name(text)


def _topic_name(text: str) -> TopicName:
    if len(text) > TOPIC_NAME_CHARS_MAX:
        raise InvalidName("a topic name is too long", chars=len(text), chars_max=TOPIC_NAME_CHARS_MAX)
    written_domain, scheme, rest = text.partition("://")
    if not scheme:
        return _short_name(text)
    domain = _DOMAINS.get(written_domain.lower())
    if domain is None:
        raise InvalidName("unknown topic domain", domain=written_domain)
    parts = rest.split("/", 2)
    if len(parts) < 3 or not parts[2]:
        raise InvalidName("a topic name must be <domain>://tenant/namespace/topic", topic=text)
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
        text=canonical if written_domain == domain else f"{written_domain}://{tail}",
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
        raise InvalidName("a namespace must be tenant/namespace", namespace=text)
    if "/" in local_name:
        raise InvalidName("names with a cluster part are not supported, use tenant/namespace", namespace=text)
    return NamespaceName(text, check_entity(tenant), check_entity(local_name))


_kept_topic_name = lru_cache(maxsize=NAMES_CACHED_MAX)(_topic_name)
_kept_namespace_name = lru_cache(maxsize=NAMES_CACHED_MAX)(_namespace_name)


def _is_short(text: str) -> bool:
    """Whether a name is short enough to cache. Clients choose names, and each is stored four times."""
    return len(text) <= (NAME_CACHED_CHARS_MAX if text.isascii() else NAME_CACHED_WIDE_CHARS_MAX)


def forget_names() -> None:
    """Empties the cache of parsed names, to release the memory of deleted topics."""
    _kept_topic_name.cache_clear()
    _kept_namespace_name.cache_clear()


def check_entity(name: str) -> str:
    """Tenants, namespaces, clusters: ASCII letters, digits and `-=:._`."""
    if not _ENTITY.fullmatch(name):
        raise InvalidName("a name may contain only letters, digits and -=:._", name=name)
    return name


def check_new(*names: str) -> None:
    """For new tenants, namespaces and topics. A name part must not be `.` or `..`, which have a meaning in paths, and
    must not contain characters that move a terminal's cursor. Existing names are not checked.
    """
    for name in names:
        if any(part in (".", "..") for part in name.split("/")):
            raise InvalidName("a name must not be `.` or `..`: choose another one", name=name)
        if _CONTROLS.search(name):
            raise InvalidName("a name must not contain control characters: choose another one", name=ascii(name))


def check_new_topic(name: TopicName) -> None:
    """As `check_new`, and the size of the whole name. The suffix of a partition does not count."""
    check_new(name.local_name)
    check_size(name.partitioned_name, "topic")


def check_size(name: str, what: str) -> None:
    """For new tenants, namespaces and topics. Existing names are not checked."""
    if (size := _bytes_beyond(name)) is not None:
        raise InvalidName(_too_long(what), bytes=size)


def check_given(name: str, what: str) -> str:
    """Subscriptions, producers, consumers: clients choose their names freely, with a maximum length. The suffix
    `-seg-N`, which clients add to a name for each segment, does not count."""
    if _bytes_beyond(name) is not None and (size := _bytes_beyond(_SEGMENT_SUFFIX.sub("", name))) is not None:
        raise LimitExceeded(_too_long(what), bytes=size)
    return name


def _too_long(what: str) -> str:
    return f"the name of a {what} must have at most {NAME_BYTES_MAX} bytes: choose a shorter one"


def _bytes_beyond(name: str) -> int | None:
    """The size of the name if it is above the limit."""
    if len(name) * 4 <= NAME_BYTES_MAX:  # most names: nothing is encoded
        return None
    size = len(utf8(name))
    return size if size > NAME_BYTES_MAX else None


def segment_name(parent: TopicName, range: HashRange, id: int) -> TopicName:
    if parent.domain is not Domain.TOPIC:
        raise InvalidName("expected a scalable topic: only scalable topics have segments", topic=parent.text)
    if not 0 <= id <= _INT64_MAX:
        raise InvalidName("a segment id must be a number from 0 to 2^63 - 1", id=id)
    return topic_name(f"{Domain.SEGMENT}://{parent.namespace}/{parent.local_name}/{Segment(range, id)}")


def full_name(text: str) -> str:
    """Completes a name without parsing it: the form in which the Java client stores names of plain topics."""
    written_domain, scheme, rest = text.partition("://")
    if not scheme:
        return topic_name(text).text
    if written_domain.lower() not in _DOMAINS:
        raise InvalidName("unknown topic domain", domain=written_domain)
    parts = rest.split("/")
    if len(parts) != 3 or _is_blank(parts[2]):
        raise InvalidName("a topic name must be <domain>://tenant/namespace/topic", topic=text)
    check_entity(parts[0])
    check_entity(parts[1])
    return text


def encode(text: str) -> str:
    """Form encoding as in Java's URLEncoder: the last part of metadata paths and routes, and cursor names."""
    return quote_plus(utf8(text), safe="*").replace("~", "%7E")


def decode(text: str) -> str:
    """The inverse of `encode`."""
    if _BAD_ESCAPE.search(text):
        raise InvalidName("a % escape is invalid", text=text)
    return unquote_plus(text, errors="replace")


def _short_name(text: str) -> TopicName:
    parts = text.split("/")
    scheme = parts[0].removesuffix(":")
    if len(parts) > 1 and scheme != parts[0] and scheme.lower() in _DOMAINS:
        raise InvalidName(f"a slash is missing after {parts[0]}: write {scheme}://tenant/namespace/topic", topic=text)
    if len(parts) == 1:
        return topic_name(f"{Domain.PERSISTENT}://{PUBLIC_TENANT}/{DEFAULT_NAMESPACE}/{text}")
    if len(parts) == 3:
        return topic_name(f"{Domain.PERSISTENT}://{text}")
    raise InvalidName("a short topic name must be topic or tenant/namespace/topic", topic=text)


def _segment_parts(rest: str, text: str) -> tuple[str, Segment]:
    local_name, _, descriptor = rest.rpartition("/")
    parts = descriptor.split("-")
    if not local_name or len(parts) != 3:
        raise InvalidName("a segment must be named <topic>/<hash start>-<hash end>-<segment id>", topic=text)
    digits = parts[2].removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()) or int(digits) > _INT64_MAX:
        raise InvalidName("a segment id must be a number from 0 to 2^63 - 1", topic=text)
    try:
        return local_name, Segment(HashRange(slot_from_hex(parts[0]), slot_from_hex(parts[1])), int(digits))
    except InvalidRange as error:
        raise InvalidName("a segment's name has no valid hash range", topic=text, why=error.what) from None


def _partition_index(local_name: str) -> int:
    """The number after the last suffix, in Java's form; Java also accepts digits of other scripts."""
    _, suffix, digits = local_name.rpartition(PARTITION_SUFFIX)
    if not suffix or not digits.isdecimal() or len(digits) > 10 or max(digits) > "\uffff":
        return -1
    index = int(digits)
    return index if index <= _INT32_MAX and len(str(index)) == len(digits) else -1


def _is_blank(text: str) -> bool:
    return all(character in _BLANKS for character in text)
