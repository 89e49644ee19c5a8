"""PLAN, HOLD, LAG and their answers as commands: our own extensions, for peers that announced them.

Positions and marks travel in columns, so that a thousand segments cost a few calls each instead of a message per mark.
Decoding checks that columns have equal lengths; otherwise it raises `Corrupt`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from magnetar.base.errors import Corrupt
from magnetar.base.ids import SegmentId
from magnetar.layout.lag import Lag
from magnetar.layout.readable_range import DONE, NUMBER_MAX, START, Around, Places, ReadableRange, ReadPosition
from magnetar.wire.broker_frames import varint
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb
from magnetar.wire.scalable.plan_ranges import EncodedRange, read

_Type = pb.BaseCommand
_STRETCH_TAG = b"\x2a"  # field 5 of CommandPlanResponse, bytes
_SEGMENT_TAG = b"\x08"  # field 1 of PlanStretch
_PLANNED = b"\x08" + varint(_Type.PLAN_RESPONSE) + varint(_Type.PLAN_RESPONSE << 3 | 2)  # a command's type, its field
_KNOWN_ERRORS = frozenset(pb.ServerError.values())


def columns(places: Places, around: Around | None = None) -> pb.SegmentPlaces:
    message = pb.SegmentPlaces(
        segment_id=list(places),
        ledger_id=[place.ledger for place in places.values()],
        entry_id=[place.entry for place in places.values()],
    )
    if any(place.row for place in places.values() if place != DONE):
        message.row.extend([0 if place == DONE else place.row for place in places.values()])
    if around:
        begun = [around.get(id, (-1, -1)) for id in places]
        message.around_ledger_id.extend(ledger for ledger, _ in begun)
        message.around_entry_id.extend(entry for _, entry in begun)
    return message


def read_around(message: pb.SegmentPlaces) -> dict[SegmentId, tuple[int, int]]:
    """For positions from `read_places`."""
    ids, ledgers, entries = message.segment_id, message.around_ledger_id, message.around_entry_id
    if not ledgers and not entries:
        return {}
    if not len(ids) == len(ledgers) == len(entries):
        raise Corrupt("columns of segment positions and their chunk data have different lengths", segments=len(ids))
    return {
        SegmentId(id): (ledger, entry)
        for id, ledger, entry in zip(ids, ledgers, entries, strict=True)
        if min(ledger, entry) >= 0
    }


def read_places(message: pb.SegmentPlaces) -> dict[SegmentId, ReadPosition]:
    ids, rows = message.segment_id, message.row or [0] * len(message.segment_id)
    if not len(ids) == len(message.ledger_id) == len(message.entry_id) == len(rows) or len(set(ids)) != len(ids):
        raise Corrupt("columns of segment positions have different lengths", segments=len(ids))
    positions: dict[SegmentId, ReadPosition] = {}
    for id, ledger, entry, row in zip(ids, message.ledger_id, message.entry_id, rows, strict=True):
        place = DONE if ledger == NUMBER_MAX else ReadPosition(ledger, entry, row)
        if place != START and (ledger < 0 or entry < 0 or row >= NUMBER_MAX):
            raise Corrupt(
                "a position in a segment must be an entry, the beginning or the end", segment=id, place=str(place)
            )
        positions[SegmentId(id)] = place
    return positions


def planned(
    request_id: int,
    incarnation: int,
    epoch: int,
    stretches: Mapping[SegmentId, EncodedRange],
    dag: pb.ScalableTopicDAG | None,
) -> bytes:
    """PLAN_RESPONSE; without `dag`, the client already knows the layout. Assembled from encoded parts, because protobuf
    would copy a thousand messages twice.
    """
    head = pb.CommandPlanResponse(request_id=request_id, incarnation=incarnation, epoch=epoch, dag=dag)
    parts = [head.SerializeToString()]
    for id, stretch in stretches.items():
        number, body = varint(id), stretch.written or stretch.body
        parts += (_STRETCH_TAG, varint(1 + len(number) + len(body)), _SEGMENT_TAG, number, body)
    response = b"".join(parts)
    command = _PLANNED + varint(len(response)) + response
    return (len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command


def plan_failed(request_id: int, code: int, text: str) -> bytes:
    response = pb.CommandPlanResponse(request_id=request_id, error=_error(code), message=text)
    return encode_command(pb.BaseCommand(type=_Type.PLAN_RESPONSE, planResponse=response))


def held(
    request_id: int,
    places: Places,
    around: Around | None = None,
    *,
    incarnation: int,
    until_ms: int,
    moved: bool,
    expired: bool,
    lost: Sequence[SegmentId],
    owner: str = "",
) -> bytes:
    """HOLD_RESPONSE. `owner`: the previous owner."""
    response = pb.CommandHoldResponse(
        request_id=request_id,
        places=columns(places, around),
        incarnation=incarnation,
        until_ms=until_ms,
        moved=moved,
        expired=expired,
        lost_segment_id=lost,
    )
    if owner:
        response.owner = owner
    return encode_command(pb.BaseCommand(type=_Type.HOLD_RESPONSE, holdResponse=response))


def released(request_id: int) -> bytes:
    """HOLD_RESPONSE to a request that ends a hold."""
    response = pb.CommandHoldResponse(request_id=request_id)
    return encode_command(pb.BaseCommand(type=_Type.HOLD_RESPONSE, holdResponse=response))


def hold_failed(request_id: int, code: int, text: str) -> bytes:
    response = pb.CommandHoldResponse(request_id=request_id, error=_error(code), message=text)
    return encode_command(pb.BaseCommand(type=_Type.HOLD_RESPONSE, holdResponse=response))


def lag(request_id: int, measured: Lag) -> bytes:
    """LAG_RESPONSE."""
    response = pb.CommandLagResponse(request_id=request_id, messages=measured.messages, bytes=measured.bytes)
    if measured.oldest_ms > 0:
        response.oldest_publish_time = measured.oldest_ms
    return encode_command(pb.BaseCommand(type=_Type.LAG_RESPONSE, lagResponse=response))


def lag_failed(request_id: int, code: int, text: str) -> bytes:
    response = pb.CommandLagResponse(request_id=request_id, error=_error(code), message=text)
    return encode_command(pb.BaseCommand(type=_Type.LAG_RESPONSE, lagResponse=response))


def read_lag(response: pb.CommandLagResponse) -> Lag:
    return Lag(response.messages, response.bytes, response.oldest_publish_time)


def read_stretches(messages: Sequence[pb.PlanStretch]) -> dict[SegmentId, ReadableRange]:
    return {SegmentId(one.segment_id): read(one) for one in messages}


def _error(code: int) -> Any:
    """ServerError is a closed enum: a code unknown to the protocol would be lost in transit."""
    return code if code in _KNOWN_ERRORS else 0
