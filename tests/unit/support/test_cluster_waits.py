"""The waits of the test cluster's scripts: as long as a starved machine needs, ten times two minutes at most."""

import subprocess

import pytest

from tests.cluster.paths import CLUSTER_SH
from tests.support.patience import HANG_SECONDS

_COMMON = CLUSTER_SH.parent / "lib" / "common.sh"
# A second passes between two looks at the clocks. The shell ran for RAN milliseconds of it and waited for the rest.
_FAKE_CLOCKS = """
_PATIENCE=10
sleep() { echo >>"$POLLS"; }
_be_busy() { :; }
_clocks() { local s; s=$(wc -l <"$POLLS"); echo $((s * 1000)) $((s * RAN)) $((s * (1000 - RAN))); }
"""


def shell(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", f". {_COMMON}\n{script}"],
        check=False,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **variables},
    )


@pytest.mark.parametrize(
    ("ran", "polls"),
    [
        (1000, 10),  # as it got all that it asked for
        (500, 20),
        (100, 100),
        (1, 100),  # ten times at most
        (0, 100),  # the kernel does not count: the longest
    ],
)
def test_a_starved_shell_waits_longer(
    tmp_path_factory: pytest.TempPathFactory, ran: int, polls: int
) -> None:
    counted = tmp_path_factory.mktemp("polls") / "polls"
    counted.touch()
    done = shell(f"{_FAKE_CLOCKS}\npoll false", POLLS=str(counted), RAN=str(ran))
    assert (done.returncode, done.stderr) == (1, "")
    assert len(counted.read_text().splitlines()) == pytest.approx(polls, rel=0.1)


def test_a_wait_ends_with_what_it_waits_for() -> None:
    script = """
    _tried() { local n; n=$(($(cat "$FILE" 2>/dev/null || echo 0) + 1)); echo $n >"$FILE"; ((n == 3)); }
    FILE=$(mktemp)
    poll _tried
    cat "$FILE"
    """
    done = shell(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_the_clocks_are_those_of_the_shell_that_waits() -> None:
    done = shell('_clocks $$; while (($(_clocks $$ | cut -d" " -f2) < 50)); do _be_busy; done')
    uptime, ran, _ = map(int, done.stdout.split())
    assert done.returncode == 0
    assert uptime > 1000
    assert ran < 50
