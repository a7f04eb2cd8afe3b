"""The commands that the cluster tools run: their input and output, and their ends."""

import pytest

from tests.cluster.errors import ClusterError, run


def test_a_command_gets_what_is_given_also_if_it_takes_longer() -> None:
    given = "line\n" * 100_000
    assert run(["bash", "-c", "sleep 0.7; cat"], what="x", timeout_seconds=60, given=given) == given


def test_one_that_fails_is_named_with_its_last_words() -> None:
    with pytest.raises(ClusterError, match=r"^listing failed \(3\):\nno such thing$"):
        run(["bash", "-c", "echo no such thing >&2; exit 3"], what="listing", timeout_seconds=60)


def test_one_that_does_not_end_is_killed() -> None:
    with pytest.raises(ClusterError, match=r"^waiting: not done after 1 s"):
        run(["sleep", "3600"], what="waiting", timeout_seconds=1)


def test_one_that_is_not_installed_is_named() -> None:
    with pytest.raises(ClusterError, match="no-such-command is not installed"):
        run(["no-such-command"], what="x", timeout_seconds=1)
