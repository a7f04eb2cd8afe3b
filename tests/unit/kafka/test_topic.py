"""What a clean topic must be like, beside its input."""

from dataclasses import replace
from datetime import timedelta

import pytest

from dedupe_kafka.topic import Topic, check, check_input, config_for

DAY_MS = 86_400_000
MAX_AGE = timedelta(days=28)


def topic(name: str = "t", partitions: int = 4, **config: str) -> Topic:
    kafka_names = {key.replace("_", "."): value for key, value in config.items()}
    return Topic(
        name=name,
        partitions=partitions,
        replication_factor=3,
        config={
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "max.message.bytes": "1048588",
            "min.insync.replicas": "2",
            "message.timestamp.type": "CreateTime",
            **kafka_names,
        },
    )


@pytest.mark.parametrize(
    ("input_ms", "output_ms"),
    [(7 * DAY_MS, 28 * DAY_MS), (90 * DAY_MS, 90 * DAY_MS), (-1, -1)],
)
def test_a_new_output_keeps_records_as_long_as_ids_and_as_its_input(
    input_ms: int, output_ms: int
) -> None:
    config = config_for(topic(retention_ms=str(input_ms)), MAX_AGE)

    assert config["retention.ms"] == str(output_ms)


def test_a_new_output_takes_what_its_input_took_and_is_as_safe() -> None:
    config = config_for(topic(max_message_bytes="5242880", cleanup_policy="compact"), MAX_AGE)

    assert config["max.message.bytes"] == "5242880"
    assert config["min.insync.replicas"] == "2"
    assert config["cleanup.policy"] == "delete"
    assert config["retention.bytes"] == "-1"
    assert config["message.timestamp.type"] == "CreateTime"


@pytest.mark.parametrize("partitions", [4, 5])
def test_an_output_that_fits_is_taken_without_a_word(partitions: int) -> None:
    assert check(topic(), topic(partitions=partitions), MAX_AGE) == []


@pytest.mark.parametrize(
    ("output", "reason", "told"),
    [
        (topic(partitions=3), "OutputTopicTooFewPartitions", "partition count to 4"),
        (topic(cleanup_policy="compact"), "OutputTopicCompacted", "cleanup.policy to delete"),
        (topic(cleanup_policy="compact,delete"), "OutputTopicCompacted", "is compacted"),
        (
            topic(message_timestamp_type="LogAppendTime"),
            "OutputTopicReplacesTimestamps",
            "message.timestamp.type to CreateTime",
        ),
    ],
)
def test_an_output_that_would_lose_or_alter_messages_is_no_use(
    output: Topic, reason: str, told: str
) -> None:
    (problem,) = check(topic(), output, MAX_AGE)

    assert (problem.reason, problem.fatal) == (reason, True)
    assert told in problem.message


def test_a_short_retention_is_warned_of_with_the_value_to_set() -> None:
    (problem,) = check(topic(), topic(retention_ms=str(7 * DAY_MS)), MAX_AGE)

    assert (problem.reason, problem.fatal) == ("OutputRetentionTooShort", False)
    assert "keeps messages for 7d" in problem.message
    assert f"retention.ms to {28 * DAY_MS}" in problem.message


def test_a_smaller_message_size_is_warned_of() -> None:
    (problem,) = check(topic(), topic(max_message_bytes="1000"), MAX_AGE)

    assert (problem.reason, problem.fatal) == ("OutputMessagesTooSmall", False)
    assert "max.message.bytes to 1048588" in problem.message


def replicated(copies: int) -> Topic:
    return replace(topic(), replication_factor=copies)


@pytest.mark.parametrize(
    ("output", "reason", "told"),
    [
        (topic(retention_bytes="1073741824"), "OutputRetentionBySize", "keeps 1Gi a partition"),
        (replicated(2), "OutputTopicLessSafe", "replication factor 2 and min.insync.replicas 2"),
        (topic(min_insync_replicas="1"), "OutputTopicLessSafe", "first's to 3 and 2"),
        (
            topic(message_timestamp_after_max_ms="3599999"),
            "OutputTopicRefusesTimestamps",
            "Set message.timestamp.after.max.ms of t to 9223372036854775807",
        ),
        (
            topic(message_timestamp_before_max_ms="86400000"),
            "OutputTopicRefusesTimestamps",
            "Set message.timestamp.before.max.ms of t",
        ),
        (
            topic(message_timestamp_difference_max_ms="3600000"),
            "OutputTopicRefusesTimestamps",
            "Set message.timestamp.difference.max.ms of t",
        ),
    ],
)
def test_what_may_lose_or_stop_messages_later_is_reported_with_its_remedy(
    output: Topic, reason: str, told: str
) -> None:
    source = topic(message_timestamp_after_max_ms="3600000")
    (problem,) = check(source, output, MAX_AGE)
    assert (problem.reason, problem.fatal) == (reason, False)
    assert told in problem.message


def test_an_output_may_refuse_what_its_input_refuses_too() -> None:
    hour = topic(message_timestamp_after_max_ms="3600000", retention_bytes="-1")
    assert check(hour, hour, MAX_AGE) == []
    assert check(replicated(1), replicated(3), MAX_AGE) == []


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_an_input_that_is_compacted_loses_messages_before_they_are_read(policy: str) -> None:
    (problem,) = check_input(topic(cleanup_policy=policy))
    assert (problem.reason, problem.fatal) == ("InputCompacted", False)
    assert not list(check_input(topic()))


def test_all_that_is_wrong_is_told_at_once_the_fatal_first() -> None:
    output = topic(
        partitions=1,
        cleanup_policy="compact",
        message_timestamp_type="LogAppendTime",
        retention_ms="1",
        max_message_bytes="1000",
    )

    assert [(problem.reason, problem.fatal) for problem in check(topic(), output, MAX_AGE)] == [
        ("OutputTopicTooFewPartitions", True),
        ("OutputTopicCompacted", True),
        ("OutputTopicReplacesTimestamps", True),
        ("OutputRetentionTooShort", False),
        ("OutputMessagesTooSmall", False),
    ]
