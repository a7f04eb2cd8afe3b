"""Binding processes to cores."""

import os
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from benchmarks.harness.pinning import available_cores, pinned


def cores_of_threads() -> set[frozenset[int]]:
    """What the threads of this process may run on."""
    cores = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # another test's thread that ends just now
            cores.add(frozenset(os.sched_getaffinity(int(task.name))))
    return cores


def test_all_threads_are_bound_and_those_begun_meanwhile_and_let_go_afterwards() -> None:
    everywhere, last = frozenset(available_cores()), frozenset(available_cores()[-1:])
    end = Event()
    before = Thread(target=end.wait)
    before.start()
    try:
        with pinned(os.getpid(), cores=last):
            assert cores_of_threads() == {last}
            during = Thread(target=end.wait)
            during.start()
            assert cores_of_threads() == {last}
        assert cores_of_threads() == {everywhere}
    finally:
        end.set()
    before.join()
    during.join()
