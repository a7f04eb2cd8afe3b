"""The test cluster does not start where its pods would be evicted for want of disk."""

import pytest

from tests.cluster import __main__ as command
from tests.cluster.errors import ClusterError


def test_a_disk_that_is_nearly_full_is_named_before_anything_starts() -> None:
    command.check_disk(command.DISK_BYTES)

    with pytest.raises(ClusterError, match=r"5119 MiB are free for .* need 5120: remove"):
        command.check_disk(command.DISK_BYTES - 1)
