"""What a query that did not get on is quoted with: its words, not the frames of its stacks."""

from __future__ import annotations

from magnetar.cli.demo.spark_process import spoken

LOG = """26/11/16 03:10:05 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Traceback (most recent call last):
  File "job.py", line 4, in <module>
    main()
pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query ended

org.apache.spark.SparkException: Python worker failed to connect back.
\tat org.apache.spark.util.LazyTry.tryT(LazyTry.scala:46)
\t... 20 more
"""


def test_frames_of_python_and_of_java_are_left_out() -> None:
    assert spoken(LOG)[-2:] == [
        "pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query ended",
        "org.apache.spark.SparkException: Python worker failed to connect back.",
    ]
    assert len(spoken(LOG)) == 4
    assert spoken("") == []
