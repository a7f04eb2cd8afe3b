"""Samples taken in the background while something is measured."""

from abc import ABC, abstractmethod
from threading import Event, Thread
from typing import Self


class Sampler(ABC):
    """Takes samples in a separate thread while its context lasts."""

    def __init__(self, name: str, *, interval_seconds: float) -> None:
        self._interval_seconds = interval_seconds
        self._stop = Event()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @abstractmethod
    def _sample(self) -> bool:
        """Take a sample; return False when there are no more."""

    def _run(self) -> None:
        while self._sample() and not self._stop.wait(self._interval_seconds):
            pass
