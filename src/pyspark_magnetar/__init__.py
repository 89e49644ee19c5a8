"""Registers the data source `magnetar` with Spark, which imports every module named `pyspark_*` at the first look-up of
a data source. The import is cheap and never fails. The data source itself reports missing packages at its first use.
"""

from __future__ import annotations

try:
    from magnetar.spark.data_source import MagnetarSource as DefaultSource
except ImportError:  # no PySpark, or one without data sources, which looks up none
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
