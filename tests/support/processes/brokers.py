"""Brokers of tests: they may take as long to start, and may hang as long, as the machine makes them."""

from pathlib import Path
from typing import Final

from dedupe_local.servers.kafka import EmbeddedBroker

START_SECONDS: Final = 600.0
"""Tenfold what a start may take on a free machine."""

LASTING_SESSION_SECONDS: Final = 60.0
"""How long a broker may hang that no test kills. On a busy machine it hangs for seconds."""

MORTAL_SESSION_SECONDS: Final = 20.0
"""How long one may hang that tests kill: it can't register again before."""


def lasting_broker(directory: Path) -> EmbeddedBroker:
    """Return a broker, not yet started, that no test kills."""
    return EmbeddedBroker(
        directory, session_seconds=LASTING_SESSION_SECONDS, start_seconds=START_SECONDS
    )


def mortal_broker(directory: Path) -> EmbeddedBroker:
    """Return a broker, not yet started, that tests may kill."""
    return EmbeddedBroker(
        directory, session_seconds=MORTAL_SESSION_SECONDS, start_seconds=START_SECONDS
    )
