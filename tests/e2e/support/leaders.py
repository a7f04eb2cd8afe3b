"""Who leads, asked again and again from a thread of its own."""

from concurrent.futures import Future, ThreadPoolExecutor
from itertools import combinations
from threading import Event
from typing import Self

from tests.e2e.support.kubectl import KubectlFailed
from tests.e2e.support.operator_pods import OperatorPods


class LeadersWatched:
    """Asks all operators of a release while its block lasts. `together` are pairs that led at one time."""

    def __init__(self, operators: OperatorPods) -> None:
        self._operators = operators
        self._stop = Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leaders")
        self._following: Future[None]
        self.together: list[tuple[str, str]] = []
        self.led: list[str] = []

    def __enter__(self) -> Self:
        self._following = self._thread.submit(self._follow)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.shutdown()
        self._following.result()  # what ended the watch ends the test

    def assert_one_at_a_time(self) -> None:
        """No two led at one time."""
        assert not self.together, f"led at one time: {self.together}"

    def _follow(self) -> None:
        while not self._stop.is_set():
            self._look()

    def _look(self) -> None:
        try:
            pods = [pod["metadata"]["name"] for pod in self._operators.all()]
        except KubectlFailed:
            return  # the next look tells
        with ThreadPoolExecutor(max(1, len(pods))) as side_by_side:
            leading = [
                pod
                for pod, leads in zip(
                    pods, side_by_side.map(self._operators.leads, pods), strict=True
                )
                if leads
            ]
        for pod in leading:
            if pod not in self.led:
                self.led.append(pod)
        for first, second in combinations(leading, 2):
            # The answers are of different moments: both led at one only if the second still does
            # between two answers of the first.
            if all(map(self._operators.leads, (first, second, first))):
                self.together.append((first, second))
