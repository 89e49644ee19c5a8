"""Columns in Spark's words: every column has both an Arrow type and one of Spark's."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.spark.read.columns import TYPES
from magnetar.spark.read.spark_types import KINDS, ddl


def test_every_column_has_type_of_spark_too():
    assert list(KINDS) == list(TYPES)


def test_schema_of_columns_quotes_their_names():
    assert ddl(["key", "__segment"]) == "`key` binary, `__segment` bigint"


def test_missing_column_is_reported_with_existing_ones():
    with pytest.raises(Misuse, match=r"option columns: unknown column offset: expected some of key, value"):
        ddl(["key", "offset"])
