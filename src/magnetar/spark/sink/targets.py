"""The target topic of each row of an Arrow batch: from the option, or from the column `topic`.

The option takes precedence, as in Spark's Kafka sink. Each name is checked once, and rows of one topic keep their
order. A null or invalid name is rejected with its row and value. Pure: whether a topic exists is known at the first
write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np
import pyarrow as pa

from magnetar.base.errors import LimitExceeded, MagnetarError, Misuse
from magnetar.base.limits import SPARK_TARGETS_MAX
from magnetar.base.names import topic_name
from magnetar.spark.read.batch_scanner import Ints
from magnetar.spark.sink.arrow_to_messages import TOPIC
from magnetar.spark.sink.options import SinkOptions, target

_SHOWN_CHARS = 120


class Targets:
    """Targets of one task. `columns` are the columns of its batches; `names` are the columns of the messages."""

    def __init__(self, options: SinkOptions, columns: Sequence[str], part: int) -> None:
        self.names = [name for name in columns if name != TOPIC]
        self._column = columns.index(TOPIC) if TOPIC in columns else -1
        self._asked = options
        self._part = part
        self._known: dict[str, str] = {}  # spelling in rows -> canonical name
        self._rows = 0

    def pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each topic, without the column `topic`. An empty batch has no topics."""
        rest = batch if self._column < 0 else batch.drop_columns([batch.schema.names[self._column]])
        if self._asked.topic:
            yield self._asked.topic, rest
        elif batch.num_rows:
            yield from self._parted(batch.column(self._column), rest)
        self._rows += batch.num_rows

    def _parted(self, column: pa.Array, rest: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        coded = column.dictionary_encode()
        if coded.null_count:
            self._refuse(
                "null", int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))), "it contains no topic"
            )
        codes = coded.indices.to_numpy()
        targets = [self._target(text, codes, code) for code, text in enumerate(coded.dictionary.to_pylist())]
        topics = list(dict.fromkeys(targets))
        if len(topics) == 1:
            yield topics[0], rest
            return
        places = np.array([topics.index(one) for one in targets])[codes]
        sorted_rows = rest.take(pa.array(np.argsort(places, kind="stable")))
        ends = np.cumsum(np.bincount(places, minlength=len(topics))).tolist()
        for topic, first, last in zip(topics, [0, *ends], ends, strict=False):
            yield topic, sorted_rows.slice(first, last - first)

    def _target(self, text: str, codes: Ints, code: int) -> str:
        canonical = self._known.get(text)
        if canonical is None:
            try:
                canonical = topic_name(target(text, self._asked.delivery)).canonical  # the same topic in every spelling
            except MagnetarError as error:
                self._refuse(repr(text[:_SHOWN_CHARS]), int(np.argmax(codes == code)), str(error))
            self._known[text] = canonical
            check_count(set(self._known.values()))
        return canonical

    def _refuse(self, value: str, row: int, why: str) -> NoReturn:
        raise Misuse(
            f"column topic is {value} in row {self._rows + row} of partition {self._part} (both from 0): {why}. "
            "Set a topic in every row, as topic://tenant/namespace/name, or set option topic for all rows"
        )


def check_count(topics: set[str]) -> None:
    """For one batch. `LimitExceeded`: no row is written."""
    if len(topics) > SPARK_TARGETS_MAX:
        raise LimitExceeded(
            f"column topic names more than {SPARK_TARGETS_MAX} topics in one batch, and each needs its own "
            "stages and commit. Write to fewer topics with keys, or distribute the rows over several queries",
            topics_max=SPARK_TARGETS_MAX,
        )
