"""What a topic beside the output must be like."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from dedupe_kafka.side_topics import check_metadata, check_routed, routed_config
from dedupe_kafka.topic import Topic, TopicProblem
from tests.unit.kafka.test_topic import topic

INPUT = topic("raw")
OUTPUT = topic("clean", retention_ms="1000")
LARGEST = routed_config(INPUT)["max.message.bytes"]

routed_problems = partial(check_routed, INPUT)


def test_one_that_fits_is_taken_without_a_word() -> None:
    for retention_ms in ("-1", "1000"):
        fits = topic(partitions=5, retention_ms=retention_ms, max_message_bytes=LARGEST)
        assert not list(routed_problems(OUTPUT, fits))
        assert not list(check_metadata(OUTPUT, fits))


@pytest.mark.parametrize("problems", [routed_problems, check_metadata])
def test_fewer_partitions_are_fatal(
    problems: Callable[[Topic, Topic], Iterator[TopicProblem]],
) -> None:
    [problem] = problems(OUTPUT, topic(partitions=3, max_message_bytes=LARGEST))
    assert (problem.reason, problem.fatal) == ("SideTopicTooFewPartitions", True)
    assert "partition count of t to 4" in problem.message


def test_only_notes_must_be_kept_as_long_as_the_output() -> None:
    short = topic(retention_ms="999", max_message_bytes=LARGEST)
    assert not list(routed_problems(OUTPUT, short))
    [problem] = check_metadata(OUTPUT, short)
    assert (problem.reason, problem.fatal) == ("SideRetentionTooShort", False)
    [problem] = check_metadata(topic(), short)
    assert "retention.ms to -1" in problem.message


def test_what_is_routed_needs_room_for_its_headers_and_its_own_timestamp() -> None:
    small = topic(max_message_bytes=INPUT.config["max.message.bytes"])
    [problem] = routed_problems(OUTPUT, small)
    assert (problem.reason, problem.fatal) == ("SideMessagesTooSmall", False)
    assert f"max.message.bytes of t to {LARGEST}" in problem.message
    [problem] = routed_problems(
        OUTPUT, topic(message_timestamp_type="LogAppendTime", max_message_bytes=LARGEST)
    )
    assert (problem.reason, problem.fatal) == ("SideTopicReplacesTimestamps", True)
