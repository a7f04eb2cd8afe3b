"""Run `dedupe index-filters` so slowly that a test can kill it meanwhile.

Usage: `python -m tests.support.crashes.slow_index MANIFEST SERVERS`.
"""

import sys
from collections.abc import Callable
from typing import Any

from dedupe_filters import backfill
from dedupe_local.cli import main
from tests.support.patience import pace

_PAUSE_SECONDS = 1.5  # longer than a reader waits at a supposed end


def slowly(write: Callable[..., None]) -> Callable[..., None]:
    """Make a writer flush each filter to the broker, and then pause."""

    def wrapped(self: Any, *args: Any) -> None:  # noqa: ANN401 (of a writer)
        write(self, *args)
        self.flush()
        pace(_PAUSE_SECONDS)

    return wrapped


if __name__ == "__main__":
    backfill.FilterProducer.write = slowly(backfill.FilterProducer.write)  # type: ignore[method-assign] # the seam for faults
    main(["index-filters", sys.argv[1], "--bootstrap-servers", sys.argv[2]])
