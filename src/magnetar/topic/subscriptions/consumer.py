"""A consumer attached to a subscription: its permits, what it holds unacknowledged, and its way out.

Permits count messages, not entries; a batch goes out whole while permits are positive, so they can turn negative
(SC-A6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.topic.client_channel import ClientChannel
from magnetar.topic.dispatch.redelivery import UnackedMessages

if TYPE_CHECKING:
    from magnetar.topic.subscriptions.subscription import Subscription


class Consumer:
    __slots__ = (
        "address",
        "answered",
        "bytes_out",
        "closed",
        "connected_ms",
        "epoch",
        "flow_held",
        "flow_waits",
        "id",
        "key_shared",
        "messages_acked",
        "messages_out",
        "metadata",
        "name",
        "order",
        "outlet",
        "pending",
        "permits",
        "priority",
        "reached_end",
        "redelivered",
        "subscription",
        "unacked_max",
    )

    def __init__(
        self, consumer_id: int, name: str, outlet: ClientChannel, *, priority: int = 0, order: int = 0
    ) -> None:
        self.id = consumer_id
        self.name = name
        self.outlet = outlet
        self.priority = priority
        self.order = order  # of joining, within the topic: the tie-break where names are equal
        self.permits = 0
        self.pending = UnackedMessages()  # used by Shared and Key_Shared only: a single active consumer needs no map
        self.epoch = -1  # of the client's own counting; -1: it does not count
        self.key_shared: KeyShared | None = None
        self.metadata: dict[str, str] = {}
        self.subscription: Subscription | None = None
        self.unacked_max = 0  # 0: no cap
        self.connected_ms = 0
        self.address = outlet.peer
        self.answered = False  # its client knows that it is attached
        self.flow_held = 0  # permits that came while an answer was pending
        self.flow_waits = 0  # answers that must go out before the messages of later permits
        self.closed = False
        self.reached_end = False
        self.messages_out = 0
        self.bytes_out = 0
        self.messages_acked = 0
        self.redelivered = 0

    @property
    def blocked(self) -> bool:
        """Too much unacknowledged: nothing more until some of it is."""
        return self.unacked_max > 0 and self.pending.messages >= self.unacked_max

    @property
    def ready(self) -> bool:
        return self.permits > 0 and not self.closed and not self.outlet.congested and not self.blocked

    def flow(self, messages: int) -> None:
        if self.flow_waits:
            self.flow_held += messages
            return
        self.permits += messages
        if self.subscription is not None:
            self.subscription.dispatcher.pump()

    def hold_flow(self) -> None:
        """Until `release_flow`: an answer is to come before the messages of permits that follow its question."""
        self.flow_waits += 1

    def release_flow(self) -> None:
        self.flow_waits -= 1
        if not self.flow_waits and self.flow_held:
            held, self.flow_held = self.flow_held, 0
            self.flow(held)


class KeyShared:
    """The request of a Key_Shared consumer: sticky ranges (inclusive) or none, and whether order may be broken. With
    `buckets` the ranges are the boundaries of all entry buckets, the same for every consumer.
    """

    __slots__ = ("buckets", "out_of_order", "ranges", "sticky")

    def __init__(
        self, *, sticky: bool, ranges: list[tuple[int, int]], out_of_order: bool, buckets: bool = False
    ) -> None:
        self.sticky = sticky
        self.ranges = ranges
        self.out_of_order = out_of_order
        self.buckets = buckets
