"""Layouts only advance, and another life of a name is never taken for news of the first."""

from __future__ import annotations

from magnetar.base.ids import SegmentId
from magnetar.client.layout_filter import LayoutFilter, LayoutVerdict, before_any
from magnetar.layout.layout import initial
from magnetar.layout.plain_layout import migrated, synthetic

ONE = initial(1, now_ms=0)
TWO = ONE.split(SegmentId(0), now_ms=1)


def test_only_newer_epochs_count():
    layouts = LayoutFilter()
    watch = layouts.opened()
    assert layouts.offered(watch, TWO) is LayoutVerdict.NEWER
    assert layouts.offered(watch, ONE) is LayoutVerdict.STALE
    assert layouts.offered(watch, TWO) is LayoutVerdict.STALE
    assert layouts.offered(watch, TWO.raised()) is LayoutVerdict.NEWER
    assert layouts.current == TWO.raised()


def test_watch_that_was_given_up_is_not_listened_to():
    layouts = LayoutFilter()
    old = layouts.opened()
    layouts.offered(old, ONE)
    new = layouts.opened()
    assert layouts.offered(old, TWO) is LayoutVerdict.STALE
    assert not layouts.gone(old)
    assert layouts.offered(new, ONE) is LayoutVerdict.STALE  # it has not changed since
    assert layouts.offered(new, TWO) is LayoutVerdict.NEWER


def test_another_incarnation_replaces_whatever_its_epoch():
    layouts = LayoutFilter()
    watch = layouts.opened()
    layouts.offered(watch, TWO, "first")
    assert layouts.offered(watch, ONE, "second") is LayoutVerdict.REPLACED
    assert layouts.current == ONE
    assert (
        layouts.offered(watch, TWO, "first") is LayoutVerdict.REPLACED
    )  # what a broker of the first life says comes last


def test_broker_that_tells_no_incarnation_is_followed_by_epoch():
    layouts = LayoutFilter()
    watch = layouts.opened()
    layouts.offered(watch, ONE, "first")
    assert layouts.offered(watch, TWO) is LayoutVerdict.NEWER
    assert layouts.incarnation == "first"
    assert layouts.offered(watch, TWO.raised(), "second") is LayoutVerdict.REPLACED


def test_recreated_topic_is_another_one():
    layouts = LayoutFilter()
    watch = layouts.opened()
    layouts.offered(watch, TWO)
    assert layouts.gone(watch)
    assert not layouts.gone(watch)
    assert layouts.offered(watch, ONE) is LayoutVerdict.REPLACED
    assert layouts.offered(watch, TWO) is LayoutVerdict.NEWER


def test_plain_topic_at_epoch_0_yields_to_migrated_epoch_0():
    """As Apache Pulsar numbers them."""
    topics = ["persistent://public/default/t"]
    layouts = LayoutFilter()
    number = layouts.opened()
    plain = before_any(synthetic(topics))
    assert layouts.offered(number, plain) is LayoutVerdict.NEWER
    assert layouts.offered(number, before_any(synthetic(topics))) is LayoutVerdict.STALE
    after = migrated(topics, now_ms=1)
    assert after.epoch == 0
    assert layouts.offered(number, before_any(after)) is LayoutVerdict.NEWER
    assert layouts.offered(number, plain) is LayoutVerdict.STALE
    assert before_any(synthetic(topics, epoch=3)).epoch == 3, "ours number them apart"
