"""What metrics show of the scalable topics that a broker leads: which they are, and the reshapes that it carried out.

Reads the controllers and operations of the service; changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from magnetar.base.names import TopicName
from magnetar.scalable.leader.controller import Controller
from magnetar.scalable.leader.operations import Operations


class LeaderMetrics:
    def __init__(self, operations: Operations, controllers: Mapping[str, Controller]) -> None:
        self._operations = operations
        self._controllers = controllers

    @property
    def finished(self) -> Mapping[str, Mapping[str, int]]:
        """By topic: how many reshapes of each kind this broker has carried out."""
        return self._operations.finished

    @property
    def led(self) -> list[TopicName]:
        """The topics that this broker leads."""
        return [one.name for one in self._controllers.values() if one.leading]
