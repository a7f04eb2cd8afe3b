"""Types of arrays and headers that describe a batch of records.

Extraction, classification and the writers share them. A batch has n records; positions in it are called rows.
"""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
"""Positions of some records in their batch, ascending: shape (m,)."""

Mask = NDArray[np.bool_]
"""A choice of records of a batch: shape (n,)."""

Header = tuple[str, bytes]
"""Name and value of a Kafka record's header."""
