"""Random seeds, the seeds that found something, and the same history for the same seed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutants.catalogue import load_killings, load_mutants
from tests.simulation.outcome import Kind, Outcome, run_seed
from tests.support.layers import later
from tests.support.patience import HANG_SECONDS

pytestmark = pytest.mark.usefixtures("quiet")

FOUND = load_killings()
MUTANTS = load_mutants()
_DIGEST = """
import os
os.sched_setaffinity(0, {cores})
from tests.simulation.outcome import Kind, run_seed, silence_logs
silence_logs()
for seed in {seeds}:
    outcome = run_seed(seed, Kind("{kind}"))
    print(seed, outcome.digest, outcome.calls, outcome.defects)
"""


def judged(seed: int, kind: Kind = Kind.DIRECT) -> Outcome:
    outcome = run_seed(seed, kind)
    flag = "" if kind is Kind.DIRECT else f"--{kind} "
    assert not outcome.defects, "\n".join(
        [
            *outcome.defects,
            f"see: python -m tests.simulation {flag}--seed {seed} --replay",
        ]
    )
    return outcome


@pytest.mark.parametrize("seed", range(1, 31))
def test_a_random_seed(seed: int) -> None:
    judged(seed)


_ONCE_FAILED = {
    "a full reconcile added an id without its content, so a conflict was none any more": 1011358,
    "what had passed without transactions was routed as well once the offset had expired": 1002494,
    "an old volume counted against an input that had lost its tail since": 8850,
}


@pytest.mark.parametrize("seed", _ONCE_FAILED.values(), ids=_ONCE_FAILED)
def test_a_seed_that_once_found_a_defect(seed: int) -> None:
    judged(seed)


@pytest.mark.parametrize("seed", [*range(1, 11), *map(later, range(11, 31))])
def test_a_random_seed_with_routers(seed: int) -> None:
    judged(seed, Kind.ROUTERS)


@pytest.mark.parametrize("seed", [*range(1, 6), *map(later, range(6, 31))])
def test_a_random_seed_of_a_stream_that_gets_routers(seed: int) -> None:
    judged(seed, Kind.CHANGE)


@pytest.mark.parametrize(
    "name", [name if MUTANTS[name].kind is Kind.DIRECT else later(name) for name in FOUND]
)
def test_a_seed_that_finds_a_defect(name: str) -> None:
    """The defect of that name; test_mutants.py shows that it does."""
    judged(FOUND[name].seed, MUTANTS[name].kind)


@pytest.mark.parametrize("kind", [Kind.DIRECT, later(Kind.ROUTERS), later(Kind.CHANGE)])
def test_a_seed_has_one_history_in_every_process(tmp_path: Path, kind: Kind) -> None:
    """Whatever differs between two machines: hashes, directories, the time zone, the number of cores."""
    cores = os.sched_getaffinity(0)
    found = set()
    for number, (zone, used) in enumerate({"UTC": cores, "Asia/Tokyo": {min(cores)}}.items()):
        place = tmp_path / ("x" * 40 * number) / "tmp"
        place.mkdir(parents=True)
        code = _DIGEST.format(cores=used, seeds=[11, 20, 28, 44], kind=kind)
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(number), "TMPDIR": str(place), "TZ": zone},
            capture_output=True,
            check=True,
            timeout=HANG_SECONDS,
        )
        found.add(done.stdout)
    assert len(found) == 1
