"""Builds an index for each ledger from the records of all segments, once, at the start.

Records come in journal order, which is the order of their entries but for copies made by compaction: a copy equals its
original, and the later one is taken. Records of ledgers that the metadata store does not know are garbage. What a
ledger must have and no segment holds is entered as damage, so that reading it is an error rather than a shorter ledger.
It only adds up; files and records were checked before.
"""

from __future__ import annotations

from magnetar.ledger.local.index import LOST, LedgerIndex
from magnetar.ledger.local.journal_files import LoadedJournal
from magnetar.ledger.local.ledger_state import LedgerState
from magnetar.ledger.local.records import size_of
from magnetar.ledger.local.scan import Damage
from magnetar.ledger.local.segment import Segment

Row = tuple[int, int, int, int, int, int]  # first, entries, messages, body, segment, offset


class Catalog:
    def __init__(self, states: dict[int, LedgerState]) -> None:
        self.segments: dict[int, Segment] = {}
        self.damage: list[Damage] = []
        self._states = states
        self._late: dict[int, list[Row]] = {}  # ledgers whose records did not come in order: sorted at the end

    def add(self, loaded: LoadedJournal) -> None:
        """The next segment, in the order of their sequence."""
        segment = loaded.segment
        sequence = segment.sequence
        self.segments[sequence] = segment
        self.damage += loaded.damage
        segment.stuck = bool(loaded.damage)
        for ledger, first, messages, entries, body, offset in loaded.records:
            state = self._states.get(ledger)
            if state is None or (state.sealed and first > state.last_sealed):
                continue
            late = self._late.get(ledger)
            if late is None and first == state.index.entries_total:
                state.index.add(entries, messages, body, sequence, offset)
                segment.live += size_of(entries, body)
            else:
                row = (first, entries, messages, body, sequence, offset)
                self._late.setdefault(ledger, []).append(row)

    def finish(self) -> None:
        for ledger in sorted(self._late):
            self._rebuild(self._states[ledger], self._late[ledger])
        for state in self._states.values():
            if state.sealed and state.last < state.last_sealed:
                self._lose(state.index, state.last_sealed - state.last)
            state.next_entry = state.index.entries_total
            if state.sealed:
                state.index.pack()
            if not state.sealed:
                state.doubt = self._doubt(state.index)

    def _rebuild(self, state: LedgerState, late: list[Row]) -> None:
        chosen: dict[int, Row] = {}
        for row in [*self._rows(state.index), *late]:
            chosen[row[0]] = row
        index = state.index = LedgerIndex()
        for first, entries, messages, body, sequence, offset in sorted(chosen.values()):
            if first > index.entries_total:
                self._lose(index, first - index.entries_total)
            if first == index.entries_total:
                index.add(entries, messages, body, sequence, offset)
                self.segments[sequence].live += size_of(entries, body)

    def _rows(self, index: LedgerIndex) -> list[Row]:
        """The items of an index that is about to be thrown away: their bytes do not count as living any more."""
        rows = []
        for number, (first, entries, body, sequence, offset) in enumerate(index.items()):
            self.segments[sequence].live -= size_of(entries, body)
            rows.append((first, entries, index.messages(number), body, sequence, offset))
        return rows

    def _lose(self, index: LedgerIndex, entries: int) -> None:
        """Entries that were acknowledged and are gone: reading them meets the damaged place, or none at all."""
        place = next((damage for damage in self.damage if not damage.known), None)
        if place is None:
            index.add(entries, 0, 0, LOST, 0)
        else:
            index.add(entries, 0, 0, place.segment, place.offset)
            self.segments[place.segment].live += size_of(entries, 0)

    def _doubt(self, index: LedgerIndex) -> Damage | None:
        """Damage without a name behind the last record of an open ledger: more of it may have been there."""
        end = index.place(len(index) - 1) if len(index) else (0, 0)
        return next((place for place in self.damage if not place.known and (place.segment, place.offset) > end), None)
