"""Brokers of tests: they may take as long to start, and may hang as long, as the machine makes them."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
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


@contextmanager
def losing(broker: EmbeddedBroker, topic: str, copies: Path) -> Iterator[Callable[[], None]]:
    """Copy partition 0 of a topic; yield what puts the copy back, so that later records are lost.

    As after a power loss. The broker is restarted each time, which begins another leader epoch.
    """
    log, copy = broker.data_dir / "data" / f"{topic}-0", Path(mkdtemp(dir=copies)) / "log"
    broker.stop()
    shutil.copytree(log, copy)
    broker.start()

    def lose() -> None:
        broker.stop()
        shutil.rmtree(log)
        shutil.copytree(copy, log)
        broker.start()

    yield lose


def flip(broker: EmbeddedBroker, topic: str, what: bytes) -> Callable[[], None]:
    """Flip a bit of partition 0 on the broker's disk, where `what` stands; return what flips it back."""
    (segment,) = (broker.data_dir / "data" / f"{topic}-0").glob("*.log")
    at = segment.read_bytes().index(what)

    def turn() -> None:
        with segment.open("r+b") as file:
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 1]))

    turn()
    return turn
