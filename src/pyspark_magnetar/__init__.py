"""Where Spark finds the data source `magnetar` by itself: it imports every module of this kind of name at the first
look-up of any source. So this costs next to nothing and never fails; what is missing is said when the source is used.
"""

from __future__ import annotations

try:
    from magnetar.spark.data_source import MagnetarSource as DefaultSource
except ImportError:  # no PySpark, or one without data sources: then nobody looks one up either
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
