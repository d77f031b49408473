"""Decodes batches that were found in a log, a group at a time; finding them is not done here."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tiergate_client.batch_layout import CODEC_MASK
from tiergate_client.errors import InvalidField
from tiergate_client.records.batch_format import MIN_RECORD_BYTES
from tiergate_client.records.batch_headers import ScannedBatches
from tiergate_client.records.batch_table import (
    ATTRIBUTES,
    BASE_OFFSET,
    COUNT,
    END,
    EXCEEDED_DELTA,
    HOLDS_RECORDS,
    LAST_OFFSET,
    START,
    record_steps,
)
from tiergate_client.records.column_building import ColumnBuilder, Records
from tiergate_client.records.decompression import DEFAULT_MAX_DECOMPRESSED_BYTES, Decompressor
from tiergate_client.records.defects import MOST_HEADERS, REASONS, WRONG_CHECKSUM, BatchDefect, FoundDefect
from tiergate_client.records.engines import EngineName, engine
from tiergate_client.records.record_columns import Bytes, DefectiveBatch, Longs, Wanted

Mask = npt.NDArray[np.bool_]

DEFAULT_GROUP_BYTES: Final = 2 * 1024 * 1024
MOST_GROUP_BYTES: Final = 256 * 1024 * 1024
"""Whatever is asked for: a group has up to three times that."""
_COLUMN_BYTES: Final = 2**31
"""A column of Arrow has less, and so must a group, and what a batch becomes."""
NO_STOP: Final = np.iinfo(np.int64).max


class RecordDecoder:
    """Batches are joined until their records have `group_bytes`, or half more; one of twice that is given in steps.

    What is needed beside the columns is thus bounded by the group and the largest batch, however small the records are,
    and so are columns with more headers than MOST_HEADERS, which are given in parts. There is one buffer to decompress
    to: not to be shared by threads, nor by generators that take turns.
    """

    def __init__(
        self,
        columns: Sequence[str],
        *,
        check_crc: bool = True,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
        group_bytes: int = DEFAULT_GROUP_BYTES,
        engine_name: EngineName | None = None,
    ) -> None:
        """Raises InvalidField for columns that are not there, and for a limit that is not from 0 to below 2 GiB."""
        if not 0 <= max_decompressed_bytes < _COLUMN_BYTES:
            raise InvalidField.of(
                "max_decompressed_bytes", f"{max_decompressed_bytes} is not from 0 to {_COLUMN_BYTES - 1} bytes"
            )
        self._engine = engine(engine_name)
        self._columns = ColumnBuilder(self._engine, columns)
        self._check_crc = check_crc
        self._decompressor = Decompressor(max_bytes_per_batch=max_decompressed_bytes, frames=self._engine.frames())
        self._group_bytes = min(max(group_bytes, 1), MOST_GROUP_BYTES)
        self.walk_batches = self._engine.walk_batches

    def decode(
        self, scanned: ScannedBatches, *, kept: Mask | None = None, start_offset: int = 0, stop_offset: int = NO_STOP
    ) -> Iterator[Any]:
        """RecordBatches of what is in batches that are kept, all but control batches, and has these offsets.

        Bounds presuppose that offsets ascend from batch to batch. Raises FoundDefect, also for what follows the
        batches, after the records of all batches before the defect. The checksums of batches outside of the bounds do
        not count: one can read on behind a damaged batch.
        """
        for begin, end in self._runs(scanned):
            asked, is_kept = scanned.part(begin, end), None if kept is None else kept[begin:end]
            if asked.table[0, BASE_OFFSET] < start_offset or asked.table[-1, LAST_OFFSET] >= stop_offset:
                is_asked = asked.touching(start_offset, stop_offset)
                asked, is_kept = asked.those(is_asked), None if is_kept is None else is_kept[is_asked]
            is_wanted = asked.table[:, HOLDS_RECORDS] != 0
            if is_kept is not None:
                is_wanted &= is_kept
            damaged = asked.first_wrong_checksum() if self._check_crc else None
            if damaged is not None:
                is_wanted[damaged:] = False
            for records in self._groups(asked.those(is_wanted)):
                batch = self._columns.build(records, start_offset=start_offset, stop_offset=stop_offset)
                if batch.num_rows:
                    yield batch
            if damaged is not None:
                raise FoundDefect(BatchDefect(asked.position(damaged), WRONG_CHECKSUM))
        if scanned.defect is not None:
            raise FoundDefect(scanned.defect)

    def _runs(self, scanned: ScannedBatches) -> Iterator[tuple[int, int]]:
        """Numbers of the first batch of each run, and behind the last."""
        if not len(scanned):
            return
        if scanned.table[-1, END] - scanned.table[0, START] <= 1.5 * self._group_bytes:
            yield 0, len(scanned)
            return
        end_bytes = np.cumsum(scanned.table[:, END] - scanned.table[:, START])
        begin = 0
        while begin < len(scanned):
            before = int(end_bytes[begin - 1]) if begin else 0
            end = len(scanned)
            if end_bytes[-1] - before > 1.5 * self._group_bytes:  # or there would be a small one at the end
                end = min(int(np.searchsorted(end_bytes, before + self._group_bytes)) + 1, len(scanned))
            yield begin, end
            begin = end

    def _groups(self, batches: ScannedBatches) -> Iterator[Records]:
        if not len(batches):
            return
        if (batches.table[:, ATTRIBUTES] & CODEC_MASK).any():
            yield from self._decompressed_groups(batches)
        else:
            yield from self._records(batches, np.frombuffer(batches.buffer, np.uint8), batches.table)

    def _decompressed_groups(self, batches: ScannedBatches) -> Iterator[Records]:
        """All of a group stands in the decompressor's buffer, so that there is one array to read from."""
        data = np.frombuffer(batches.buffer, np.uint8)
        self._decompressor.clear()  # a call that was given up may have left something
        done, reason = 0, None
        while done < len(batches) and reason is None:
            table = batches.table[done:]
            spans, reason = self._decompressor.append_all(data, table, enough=self._group_bytes)
            if len(spans):
                table = table[: len(spans)].copy()
                table[:, [START, END]] = spans
                yield from self._records(batches.part(done, done + len(spans)), self._decompressor.data, table)
            done += len(spans)
            self._decompressor.clear()
        if reason is not None:
            raise FoundDefect(BatchDefect(batches.position(done), reason))

    def _records(self, batches: ScannedBatches, data: Bytes, table: Longs) -> Iterator[Records]:
        """Of one group; only the last batch of one may be large. Raises FoundDefect behind the sound ones."""
        sizes = table[:, END] - table[:, START]
        too_many = np.flatnonzero(table[:, COUNT] > sizes // MIN_RECORD_BYTES)
        sound = int(too_many[0]) if len(too_many) else len(table)
        is_large = sound and sizes[sound - 1] > 2 * self._group_bytes
        together = sound - 1 if is_large else sound
        done = 0
        failed = yield from self._read(data, table[:together])
        if failed is None and is_large:
            done = together
            failed = yield from self._in_steps(data, table[together])
        if failed is not None:
            raise FoundDefect(BatchDefect(batches.position(done + failed.number), REASONS[failed.defect]))
        if sound < len(table):
            reason = f"{table[sound, COUNT]} records do not fit into {sizes[sound]} bytes"
            raise FoundDefect(BatchDefect(batches.position(sound), reason))

    def _read(self, data: Bytes, table: Longs) -> Generator[Records, None, DefectiveBatch | None]:
        """Those before the batch that it returns, if any."""
        if not len(table):
            return None
        columns = self._engine.read_records(data, table, self._columns.wanted)
        if isinstance(columns, DefectiveBatch):
            yield from self._read(data, table[: columns.number])
            return columns
        yield from Records(data, table, columns).parts(most_headers=MOST_HEADERS)
        return None

    def _in_steps(self, data: Bytes, row: Longs) -> Generator[Records, None, DefectiveBatch | None]:
        """All of them are read once before any is given: of a batch with a defect, no record is."""
        steps: list[Longs] = []
        position, exceeded = int(row[START]), -1
        for step in record_steps(row, step_bytes=self._group_bytes):
            step[START], step[EXCEEDED_DELTA] = position, exceeded
            table = step[np.newaxis]
            columns = self._engine.read_records(data, table, Wanted())
            if isinstance(columns, DefectiveBatch):
                return columns
            position, exceeded = columns.end, int(columns.offsets[-1] - row[BASE_OFFSET])
            step[END] = position  # memory is asked for by the bytes of what is read
            steps.append(table)
        for table in steps:
            yield from self._read(data, table)
        return None
