"""Run `dedupe index-filters` slowly enough to be killed meanwhile.

Usage: `python -m tests.support.processes.slow_index MANIFEST SERVERS`.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from dedupe_filters import backfill as indexer
from dedupe_local.cli import main

_PAUSE_SECONDS = 1.5  # longer than a reader waits at what it takes for the end


def slowly(write: Callable[..., None]) -> Callable[..., None]:
    """Each filter is on the broker before the next is made, and takes its time."""

    def wrapped(self: Any, *args: Any) -> None:  # noqa: ANN401 (of a writer)
        write(self, *args)
        self.flush()
        time.sleep(_PAUSE_SECONDS)

    return wrapped


if __name__ == "__main__":
    indexer.Writer.write = slowly(indexer.Writer.write)  # type: ignore[method-assign] # the seam for faults
    main(["index-filters", sys.argv[1], "--bootstrap-servers", sys.argv[2]])
