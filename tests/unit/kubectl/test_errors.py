"""The plugin's errors, and what it needs to be installed."""

import subprocess
import sys

from dedupe_kafka.errors import StreamError
from dedupe_kubectl.errors import NoAccess, PluginError

WITHOUT_KAFKA = """
import sys
sys.modules["confluent_kafka"] = None  # an import of it fails
import dedupe_kubectl.cli
from dedupe_kafka.errors import StreamError
assert issubclass(dedupe_kubectl.errors.PluginError, StreamError)
"""


def test_the_plugin_starts_without_a_kafka_client() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_KAFKA], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_its_errors_are_errors_of_the_stream_and_only_a_silent_api_server_is_retried() -> None:
    assert issubclass(PluginError, StreamError)
    retried = {error for error in PluginError.__subclasses__() if error.retriable}
    assert retried == {NoAccess}
