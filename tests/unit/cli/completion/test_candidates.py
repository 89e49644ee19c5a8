"""Which questions a kind of name needs, and what their answers offer."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.cli.completion.candidates import NAMES_MAX, further, offered, questions

BROKER: dict[str, Any] = {
    "/admin/v2/tenants": ["public", "acme"],
    "/admin/v2/namespaces/public": ["public/default", "public/functions"],
    "/admin/v2/namespaces/acme": ["acme/shop"],
    f"/admin/v2/persistent/public/default?limit={NAMES_MAX}": [
        "persistent://public/default/orders",
        "persistent://public/default/audit-partition-0",
        "persistent://public/default/audit-partition-1",
        "persistent://public/default/bad\x1b[2J",
    ],
    f"/admin/v2/non-persistent/public/default?limit={NAMES_MAX}": ["non-persistent://public/default/ticks"],
    f"/admin/v2/persistent/acme/shop?limit={NAMES_MAX}": ["persistent://acme/shop/carts"],
    "/admin/v2/scalable/public/default": ["topic://public/default/clicks"],
    "/admin/v2/scalable/acme/shop": ["topic://acme/shop/views"],
    "/admin/v2/persistent/public/default/orders/subscriptions": ["billing", "audit"],
    "/admin/v2/scalable/public/default/clicks/stats": {"subscriptions": {"daily": {}}},
    "/admin/v2/scalable/public/default/clicks": {
        "segments": {
            "0": {"segmentId": 0, "state": "SEALED", "hashRange": {"start": 0, "end": 65535}},
            "1": {"segmentId": 1, "state": "ACTIVE", "hashRange": {"start": 0, "end": 32767}},
            "2": {"segmentId": 2, "state": "ACTIVE", "hashRange": {"start": 32768, "end": 65535}},
        }
    },
}


def names(kind: str, word: str, topic: str = "") -> list[str]:
    asked = questions(kind, word, topic)
    return [name for one in asked for name, _ in offered(one, BROKER.get(one.path), word)]


@pytest.mark.parametrize(
    ("kind", "word", "expected"),
    [
        ("tenant", "", ["acme", "public"]),
        ("tenant", "p", ["public"]),
        ("namespace", "", ["acme/", "public/"]),
        ("namespace", "public/d", ["public/default"]),
        ("topic", "", ["audit", "orders", "topic://public/default/clicks", "acme/", "public/"]),
        ("topic", "o", ["orders"]),
        ("topic", "t", ["topic://public/default/clicks"]),
        ("topic", "acme/", ["acme/shop/"]),
        ("topic", "acme/shop/", ["acme/shop/carts"]),
        ("topic", "persistent://", ["persistent://acme/", "persistent://public/"]),
        ("topic", "persistent://ac", ["persistent://acme/"]),
        ("topic", "persistent://acme/", ["persistent://acme/shop/"]),
        ("topic", "persistent://acme/shop/", ["persistent://acme/shop/carts"]),
        ("topic", "non-persistent://public/default/t", ["non-persistent://public/default/ticks"]),
        ("topic", "topic://acme/shop/v", ["topic://acme/shop/views"]),
        ("topic", "http://x", []),
        ("scalable", "", ["clicks", "acme/", "public/"]),
        ("scalable", "acme/shop/", ["acme/shop/views"]),
        ("scalable", "topic://public/default/", ["topic://public/default/clicks"]),
        ("scalable", "persistent://public/default/", []),
    ],
)
def test_names_step_by_step(kind: str, word: str, expected: list[str]) -> None:
    assert names(kind, word) == expected


@pytest.mark.parametrize(
    ("kind", "topic", "expected"),
    [
        ("subscription", "orders", ["audit", "billing"]),
        ("subscription", "public/default/orders", ["audit", "billing"]),
        ("subscription", "persistent://public/default/orders", ["audit", "billing"]),
        ("subscription", "topic://public/default/clicks", ["daily"]),
        ("subscription", "clicks", ["daily"]),
        ("subscription", "", []),
        ("subscription", "half/a-name", []),
        ("segment", "topic://public/default/clicks", ["1", "2"]),
        ("segment", "clicks", ["1", "2"]),
        ("segment", "nothing", []),
    ],
)
def test_what_topic_has(kind: str, topic: str, expected: list[str]) -> None:
    assert names(kind, "", topic) == expected


def test_segment_is_offered_with_its_range() -> None:
    (question,) = questions("segment", "", "clicks")
    assert offered(question, BROKER[question.path], "2") == [("2", "8000-ffff")]


@pytest.mark.parametrize("document", [None, [], {}, "x", 3, [1, None], {"segments": 3}, {"segments": {"0": 1}}])
def test_answer_that_is_not_what_was_asked_for_offers_nothing(document: Any) -> None:
    for kind, word in (("topic", ""), ("scalable", "a/b/"), ("tenant", ""), ("segment", ""), ("subscription", "")):
        for question in questions(kind, word, "topic://a/b/c"):
            assert offered(question, document, word) == []


def test_part_of_name_stays_inside_its_part() -> None:
    paths = [one.path for word in ("../x/", "a?b/", "a#b/c/") for one in questions("topic", word)]
    assert not any(".." in path.split("/") or "#" in path for path in paths)
    assert all(path.count("?") <= 1 for path in paths)


@pytest.mark.parametrize(
    ("word", "after"),
    [
        ("ord", "persistent%3A%2F%2Fpublic%2Fdefault%2Ford"),
        ("acme/shop/c", "persistent%3A%2F%2Facme%2Fshop%2Fc"),
        ("persistent://acme/shop/c", "persistent%3A%2F%2Facme%2Fshop%2Fc"),
    ],
)
def test_full_candidate_list_is_requested_again_with_longer_prefix(word: str, after: str) -> None:
    question = questions("topic", word)[0]
    assert further(question, word, NAMES_MAX - 1) is None
    more = further(question, word, NAMES_MAX)
    assert more is not None
    assert more.path.endswith(f"?limit={NAMES_MAX}&after={after}")
