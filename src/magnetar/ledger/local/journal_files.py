"""The files of the journal. Everything here blocks and runs on the journal's lane alone, in the order it was asked.

A segment gets its name only after its header is durable, and the next one is begun only after the last record of this
one is: so a file with a segment's name is a segment, and every segment but the newest is whole. Sidecars are a
convenience that may be missing or wrong. It decides nothing: the loop says what goes where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from magnetar.base.errors import Corrupt, MagnetarError, NotFound, StorageFailed, StorageFull
from magnetar.base.limits import (
    JOURNAL_AHEAD_ROOM,
    JOURNAL_FILES_OPEN_MAX,
    JOURNAL_JOIN_BYTES_MAX,
    JOURNAL_SPARE_ROOM,
    JOURNAL_SPARES_MAX,
)
from magnetar.ledger.local.records import encode_end
from magnetar.ledger.local.scan import WINDOW_BYTES, Damage, ScanResult, scan, sniff
from magnetar.ledger.local.segment import (
    START,
    Segment,
    SegmentRecords,
    decode_header,
    decode_sidecar,
    encode_header,
    encode_sidecar,
    log_name,
    sequence_of,
    sidecar_name,
    spare_name,
)
from magnetar.runtime.files import Buffer, File, Files

TEMPORARY = ".tmp"
SPARE = "spare-"


@dataclass(slots=True)
class LoadedJournal:
    segment: Segment
    records: SegmentRecords
    damage: list[Damage]


class JournalFiles:
    def __init__(
        self,
        files: Files,
        directory: str,
        *,
        segment_bytes: int,
        ahead_bytes: int,
        wall: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self.directory = directory
        self.spares: list[str] = []
        self._files = files
        self._segment_bytes = segment_bytes
        self._ahead_bytes = ahead_bytes
        self._wall = wall
        self._monotonic = monotonic
        self._open: dict[int, File] = {}  # in the order of last use

    # Starting

    def inventory(self) -> tuple[list[int], int]:
        """Sequence numbers of the segments there are, and the highest any file ever had. Leftovers are removed."""
        self._files.mkdir(self.directory)
        names = self._files.list(self.directory)
        sequences = sorted(sequence for name in names if (sequence := sequence_of(name)) is not None)
        highest = max(sequences, default=0)
        expected_names = {log_name(sequence) for sequence in sequences} | {
            sidecar_name(sequence) for sequence in sequences
        }
        for name in names:
            if name.startswith(SPARE):
                number = name.removeprefix(SPARE).partition(".")[0]
                highest = max(highest, int(number) if number.isdecimal() else 0)
                self._keep_spare(name)
            elif name not in expected_names:
                self._files.remove(self._path(name))
        self._files.sync_dir(self.directory)
        return sequences, highest

    def load(self, sequence: int, *, last: bool) -> LoadedJournal:
        """What a segment holds, from its sidecar or by reading it; afterwards it is ended and takes nothing more."""
        file = self.file(sequence)
        stamp = self._stamp(file, sequence)
        if stamp is None:
            segment = Segment(sequence, 0, max(START, file.size()))
            segment.full = True
            return LoadedJournal(segment, SegmentRecords(), [Damage(sequence, 0, file.size(), False)])
        loaded = self._sidecar(sequence, stamp)
        if loaded is not None:
            return loaded
        scanned = scan(file, sequence, stamp, last=last)
        segment = Segment(sequence, stamp, scanned.end)
        segment.full = True
        if last:
            self._settle(file, segment, scanned)
        if not scanned.damage:  # a sidecar would make the next start forget the damage
            self.write_sidecar(segment, scanned.records)
        return LoadedJournal(segment, scanned.records, scanned.damage)

    def _stamp(self, file: File, sequence: int) -> int | None:
        header = decode_header(file.pread(START, 0), file.path)
        if header is not None:
            return header[1] if header[0] == sequence else None
        return sniff(file, sequence)

    def _sidecar(self, sequence: int, stamp: int) -> LoadedJournal | None:
        try:
            file = self._files.open(self._path(sidecar_name(sequence)))
        except NotFound:
            return None
        try:
            segment, records = decode_sidecar(file.pread(file.size(), 0), file.path)
        except Corrupt:
            return None
        finally:
            file.close()
        return LoadedJournal(segment, records, []) if (segment.sequence, segment.stamp) == (sequence, stamp) else None

    def _settle(self, file: File, segment: Segment, scanned: ScanResult) -> None:
        """End the newest segment where its records end. What no later record vouches for is written again: it may stand
        only in the page cache, and after a failed sync not even a new one would bring it to the disk. That is done in
        another file that then takes the name of this one: a write in place that loses power may spoil what it writes
        over, and that was acknowledged."""
        if scanned.durable < scanned.end:
            file = self._copied(file, segment)
        file.truncate(segment.end)
        self.finish(segment)

    def _copied(self, file: File, segment: Segment) -> File:
        name = self._path(log_name(segment.sequence))
        with self._temporary(name) as copy:
            for at in range(0, segment.end, WINDOW_BYTES):
                copy.pwritev([file.pread(min(WINDOW_BYTES, segment.end - at), at)], at)
        self._open.pop(segment.sequence).close()
        self._files.rename(name + TEMPORARY, name)
        self._files.sync_dir(self.directory)
        return self.file(segment.sequence)

    # Writing

    def file(self, sequence: int) -> File:
        file = self._open.pop(sequence, None)
        if file is None:
            file = self._files.open(self._path(log_name(sequence)))
            if len(self._open) >= JOURNAL_FILES_OPEN_MAX:
                oldest = next(iter(self._open))
                self._open.pop(oldest).close()
        self._open[sequence] = file
        return file

    def write(self, segment: Segment, start: int, buffers: list[Buffer], ended: Segment | None, *, new: bool) -> float:
        """One batch: whole in one segment, one sync. The seconds it took; any error ends the journal."""
        if new:
            self._begin(segment, ended)
        file = self.file(segment.sequence)
        began = self._monotonic()
        if len(buffers) > 2 and sum(map(len, buffers)) <= JOURNAL_JOIN_BYTES_MAX:
            buffers = [b"".join(buffers)]  # small records: one copy costs less than the kernel's step for each buffer
        try:
            file.pwritev(buffers, start)
            file.datasync()
        except StorageFull:
            self._take_back(file, start)
            raise
        return self._monotonic() - began

    def _take_back(self, file: File, start: int) -> None:
        """A full disk is a definite no only if nothing of the batch can show up later."""
        try:
            file.truncate(start)
            file.datasync()
        except MagnetarError as error:
            raise StorageFailed(f"the disk is full; a part of the batch may have been written: {error}") from error

    def _begin(self, segment: Segment, ended: Segment | None) -> None:
        if ended is not None:
            self.finish(ended)
        name = self.spares.pop() if self.spares else spare_name(segment.sequence)
        file = self._files.open(self._path(name), create=True)
        file.allocate(min(self._ahead_bytes, self._segment_bytes))
        file.pwritev([encode_header(segment.sequence, segment.stamp, self._wall())], 0)
        file.datasync()
        segment.allocated = file.size()
        file.close()
        self._files.rename(self._path(name), self._path(log_name(segment.sequence)))
        self._files.sync_dir(self.directory)

    def finish(self, segment: Segment) -> None:
        """Write the record that ends a segment; all before it is durable already."""
        file = self.file(segment.sequence)
        file.pwritev([encode_end(segment.stamp, segment.end)], segment.end)
        file.datasync()

    def prepare(self, sequence: int, size: int, *, written: bool) -> int:
        """Blocks for writes to come, so that their sync has little metadata to write; none if zeros are `written`. None
        near a full disk: the writes themselves may still fit."""
        file = self.file(sequence)
        if self._files.free(self.directory) < JOURNAL_AHEAD_ROOM * (size - file.size()):
            return file.size()
        file.allocate(size, written=written)
        file.datasync()
        return file.size()

    def write_sidecar(self, segment: Segment, records: SegmentRecords) -> None:
        path = self._path(sidecar_name(segment.sequence))
        with self._temporary(path) as file:
            file.pwritev([encode_sidecar(segment, records)], 0)
        self._files.rename(path + TEMPORARY, path)

    @contextmanager
    def _temporary(self, path: str) -> Iterator[File]:
        """A new file that will take the name `path`; durable at the end. On a full disk it is removed: it would take
        space from the next start."""
        file = self._files.open(path + TEMPORARY, create=True)
        try:
            file.truncate(0)
            yield file
            file.datasync()
        except StorageFull:
            file.close()
            self._files.remove(path + TEMPORARY)
            raise
        file.close()

    # Reading and letting go

    def records(self, segment: Segment) -> SegmentRecords:
        """The records of an ended segment."""
        loaded = self._sidecar(segment.sequence, segment.stamp)
        if loaded is not None:
            return loaded.records
        return scan(self.file(segment.sequence), segment.sequence, segment.stamp, last=False).records

    def free(self, sequence: int) -> None:
        """Keeps the file as a spare, or returns its space. It is renamed immediately: a spare is not a segment."""
        file = self._open.pop(sequence, None)
        if file is not None:
            file.close()
        sidecar = self._path(sidecar_name(sequence))
        if self._files.exists(sidecar):
            self._files.remove(sidecar)
        name = spare_name(sequence)
        self._files.rename(self._path(log_name(sequence)), self._path(name))
        self._keep_spare(name)
        self._files.sync_dir(self.directory)

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def _keep_spare(self, name: str) -> None:
        file = self._files.open(self._path(name))
        size = file.size()
        file.close()
        usual = self._segment_bytes // 2 <= size <= self._segment_bytes * 2
        roomy = self._files.free(self.directory) >= JOURNAL_SPARES_MAX * JOURNAL_SPARE_ROOM * self._segment_bytes
        if usual and roomy and len(self.spares) < JOURNAL_SPARES_MAX:
            self.spares.append(name)
        else:
            self._files.remove(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"
