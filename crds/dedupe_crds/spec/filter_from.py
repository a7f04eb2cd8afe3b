"""Sources of the value that readers filter by.

Spark's executors import it: so this module needs nothing but the standard library.
"""

from enum import StrEnum


class FilterFrom(StrEnum):
    """Source of the value that readers filter by."""

    HEADER = "Header"
    JSON_PATH = "JsonPath"
