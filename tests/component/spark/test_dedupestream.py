"""The example of `import dedupestream` runs as it stands there."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow.dataset
import pytest

import dedupestream
from tests.support.fixtures import CreateStream
from tests.support.spark.session import spark
from tests.support.traffic.traffic import produce, retries

__all__ = ["spark"]

SENT = 200


@pytest.mark.usefixtures("spark")
def test_the_example_reads_audits_and_lands(streams: CreateStream, tmp_path: Path) -> None:
    stream = streams(partitions=2)
    sent = list({message.key: message for message in retries(5, SENT, partitions=2)}.values())
    for topic in (stream.input_topic, stream.output_topic):
        produce(stream.bootstrap_servers, topic, sent)
    assert dedupestream.__doc__ is not None
    example = dedent(dedupestream.__doc__.split("\n\n", 1)[1].rpartition("\n\n")[0])
    for stands_for, name in (
        ("localhost:9092", stream.bootstrap_servers),
        ("orders-clean", stream.output_topic),
        ("stream.yaml", str(stream.manifest)),
        ("lake/orders", str(tmp_path / "lake")),
    ):
        assert stands_for in example
        example = example.replace(stands_for, name)
    names: dict[str, Any] = {"Path": Path}

    exec(example, names)  # noqa: S102 (of a docstring)

    assert names["records"] == names["orders"].count() == len(sent)
    assert names["result"].is_clean
    assert names["landed"].records == len(sent)
    assert pyarrow.dataset.dataset(tmp_path / "lake").count_rows() == len(sent)
