"""Plans as a client asks for them: the layout travels once, and what a broker leaves out is not guessed."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Corrupt, Misuse, Refused, TimedOut, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.client.batch_read.plan import Plan, PlanClient, PlanRequest
from magnetar.layout.layout import initial
from magnetar.layout.readable_range import CutColumns, CutPoint, ReadableRange, ReadPosition
from magnetar.layout.routing import Routing
from magnetar.wire import commands
from magnetar.wire.proto import pb
from magnetar.wire.scalable import plans
from magnetar.wire.scalable.layouts import LayoutUpdate, dag
from magnetar.wire.scalable.plan_ranges import encode_range
from tests.unit.client.world import Broker, Link, a_broker, a_lookup

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand
T = "topic://public/default/t"
A = SegmentId(0)


def speaks(broker: Broker, version: int = 1) -> None:
    """Announces our extensions."""

    def connect(link: Link, command: pb.BaseCommand) -> bool:
        link.write(commands.connected("a broker", 21, 1 << 20, pb.FeatureFlags(magnetar_extensions=version)))
        return True

    broker.handlers[K.CONNECT] = connect


def answers(broker: Broker, *, epoch: int = 4, shown: bool = True, known: bool = True) -> None:
    layout = initial(2, now_ms=1, epoch=epoch)
    stretches = {
        A: encode_range(
            ReadableRange(
                ReadPosition(1, 0),
                CutColumns.of([CutPoint(ReadPosition(1, 5), 5, 50, 9)]),
                end=ReadPosition(1, 5),
                messages=5,
                bytes=50,
            )
        )
    }

    def plan(link: Link, command: pb.BaseCommand) -> bool:
        asked = command.plan
        has = known and (asked.known_incarnation, asked.known_epoch) == (7, epoch)
        body = dag(LayoutUpdate(layout, {}, routing=Routing.HIGH16, incarnation=7), extended=True)
        link.write(plans.planned(asked.request_id, 7, epoch, stretches, body if shown and not has else None))
        return True

    broker.handlers[K.PLAN] = plan


async def test_layout_travels_once_and_question_says_which_one_is_known() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        speaks(broker)
        answers(broker)
        planning = PlanClient(lookup)
        first = await planning.plan(PlanRequest(T, {}), 5)
        again = await planning.plan(PlanRequest(T, {A: ReadPosition(1, 2)}, messages_max=3, bytes_max=4), 5)
        assert isinstance(first, Plan)
        assert (again.layout, again.incarnation, again.routing) == (first.layout, 7, Routing.HIGH16)
        assert again.stretches[A].marks == (CutPoint(ReadPosition(1, 5), 5, 50, 9),)
        one, two = (said.plan for said in broker.kinds(K.PLAN))
        assert not one.HasField("known_epoch")
        assert (two.known_incarnation, two.known_epoch, two.messages_max, two.bytes_max) == (7, 4, 3, 4)
        assert plans.read_places(two.places) == {A: ReadPosition(1, 2)}


async def test_words_times_and_targets_are_said_in_command() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        speaks(broker)
        answers(broker)
        planning = PlanClient(lookup)
        for start in ("start", "earliest", "latest", 12345):
            await planning.plan(
                PlanRequest(T, {}, start, targets={A: ReadPosition(3, 4)}, publish_times=True, subscription="s"), 5
            )  # type: ignore[arg-type]
        said = [one.plan for one in broker.kinds(K.PLAN)]
        assert [one.start for one in said] == [pb.FROM_START, pb.FROM_EARLIEST, pb.FROM_LATEST, pb.FROM_TIME]
        assert said[3].publish_time == 12345
        assert plans.read_places(said[0].targets) == {A: ReadPosition(3, 4)}
        assert (said[0].publish_times, said[0].subscription) == (True, "s")


async def test_plan_without_layout_that_is_known_is_refused() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        speaks(broker)
        answers(broker, shown=False)
        with pytest.raises(Corrupt):
            await PlanClient(lookup).plan(PlanRequest(T, {}), 5)


async def test_broker_without_plans_differs_from_refusing_broker() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        with pytest.raises(Refused):
            await PlanClient(lookup).plan(PlanRequest(T, {}), 5)
        assert broker.kinds(K.PLAN) == []
    async with a_broker() as broker, a_lookup(broker) as lookup:
        speaks(broker)
        broker.handlers[K.PLAN] = lambda link, command: (
            link.write(plans.plan_failed(command.plan.request_id, 11, "no such topic")) or True
        )
        with pytest.raises(TopicNotFound):
            await PlanClient(lookup).plan(PlanRequest(T, {}), 5)


async def test_unready_broker_is_asked_again_within_bound() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        speaks(broker)
        broker.handlers[K.PLAN] = lambda link, command: (
            link.write(plans.plan_failed(command.plan.request_id, 6, "moves")) or True
        )
        with pytest.raises(TimedOut):
            await PlanClient(lookup).plan(PlanRequest(T, {}), 0.2)
        asked = asyncio.get_running_loop().create_task(PlanClient(lookup).plan(PlanRequest(T, {}), 60))
        answers(broker)
        assert (await asked).epoch == 4


def test_questions_that_mean_nothing_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(Misuse):
        PlanRequest(T, {}, messages_max=-1)
    with pytest.raises(Misuse):
        PlanRequest(T, {}, "middle")  # type: ignore[arg-type]


def test_plan_with_invalid_position_is_refused_before_request() -> None:
    with pytest.raises(Misuse, match="position must be"):
        PlanRequest(T, {A: ReadPosition(-7, 3)})
    with pytest.raises(Misuse, match="position must be"):
        PlanRequest(T, {}, targets={A: ReadPosition(3, -1)})


@pytest.mark.parametrize("start", [1.5, None, True, -1, 2**63, "first", b"start", []])
def test_plan_without_valid_start_is_refused(start) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Misuse, match="start of a plan must be") as told:
        PlanRequest(T, {}, start)
    assert told.value.facts == {"given": repr(start)}


@pytest.mark.parametrize("limit", [1.5, None, True, -1, 2**63, "5"])
def test_limits_of_plan_are_whole_numbers(limit) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Misuse, match="messages_max of a plan"):
        PlanRequest(T, {}, messages_max=limit)
    with pytest.raises(Misuse, match="bytes_max of a plan"):
        PlanRequest(T, {}, bytes_max=limit)
