"""Notice under a running worker that a topic was deleted and created again.

Only a description of the topic shows its UUID, and the answer lists all of its partitions: with 1,000 workers of 1,000
partitions each, that is most of what an idle stream receives from the brokers. The end of the worker's own
partition is a small answer. A new topic is shorter than the worker has come, so it is described at once then,
and otherwise the less often, the more partitions it has. The input is also described before records are
processed that may be of another topic (fetch_failures.py).

Brokers without topic ids describe every topic alike. There a topic that is shorter than before is taken for another
one; the next session proves it (topic_proof.py).
"""

from typing import Final

from dedupe_crds.clock import Clock
from dedupe_kafka.topic_id import has_id
from dedupe_worker.errors import InputTopicReplaced, OutputTopicReplaced, OutputTruncated
from dedupe_worker.kafka.admin import Topic, Topics

# All workers of a stream together describe each topic 17 times a second at most.
_SECONDS_PER_PARTITION: Final = 0.06
_SHORTEST_SECONDS: Final = 10.0
# `check` is called about so often, so what is due before the next one is done in this one.
_HALF_CHECK_SECONDS: Final = 5.0
# Multiples of it are spread evenly over an interval, so that the workers of a stream do not ask at the same time.
_GOLDEN: Final = 0.618033988749895


class TopicWatch:
    """Watches one partition of the input and the output topic.

    `input_end` is the last end of the input partition that is known to be of the watched topic, -1 before; `stable_end`
    the one that the last `check` has found.
    `input_partitions` is the partition count of the input as last described. `is_described`: the last `check` has
    described the input, and it is the watched topic.
    """

    def __init__(
        self, topics: Topics, input_topic: Topic, output_topic: Topic, partition: int, clock: Clock
    ) -> None:
        self._topics = topics
        self._input = input_topic
        self._output = output_topic
        self._partition = partition
        self._monotonic = clock.monotonic
        partitions = max(input_topic.partitions, output_topic.partitions)
        self._interval = max(_SHORTEST_SECONDS, _SECONDS_PER_PARTITION * partitions)
        self._due = self._monotonic() + self._interval * (partition * _GOLDEN % 1.0)
        self._furthest_output = 0
        self.input_end = self.stable_end = -1
        self.is_described = False
        self.input_partitions = input_topic.partitions

    def check(self, *, input_offset: int, output_position: int) -> int:
        """Return the end of the input partition.

        `input_offset` and `output_position` are how far the worker has come. Raises OutputTopicReplaced,
        InputTopicReplaced, or the errors of `Topics`.
        """
        self._furthest_output = max(self._furthest_output, output_position)
        end = self.stable_end = self._topics.end(self._input.name, self._partition)
        output_end = self._topics.end(self._output.name, self._partition)
        now = self._monotonic()
        # A position that went back is that of records which were written to a new topic.
        went_back = output_position < self._furthest_output
        stable_before = output_end < self._furthest_output
        shorter = end < input_offset or went_back or stable_before
        self.is_described = False
        if shorter or now + _HALF_CHECK_SECONDS >= self._due:
            self._check_output(went_back=went_back, stable_before=stable_before)
            self.check_input(input_offset)
            self.is_described = True
            self.input_end = end  # asked before the topic was described
            self._due = now + self._interval
        return end

    def check_input(self, input_offset: int = 0) -> None:
        """Raise InputTopicReplaced if the input is another topic than the watched one."""
        name, watched = self._input.name, self._input.id
        described = self._topics.describe(name, self._partition)
        found = described.id
        if found != watched or self._is_shorter(found, name, input_offset):
            raise InputTopicReplaced(
                f"input topic {name} was deleted and created again; the new one is read from its start"
            )
        self.input_partitions = described.partitions

    def _check_output(self, *, went_back: bool, stable_before: bool) -> None:
        name, watched = self._output.name, self._output.id
        found = self._topics.describe(name, self._partition).id
        ends_before = stable_before and self._ends_before(name, self._furthest_output)
        shorter = went_back or ends_before
        if found == watched and has_id(found) and shorter:
            raise OutputTruncated(
                f"{name}/{self._partition} ends before offset {self._furthest_output}, which it had reached: the "
                "brokers have lost records; starting again"
            )
        if found != watched or shorter:
            raise OutputTopicReplaced(
                f"output topic {name} was deleted and created again; the store is rebuilt from the new one"
            )

    def _is_shorter(self, topic_id: str, name: str, position: int) -> bool:
        """Return whether a topic without an id ends before the position.

        That is not by the last stable offset, which another producer's open transaction holds back.
        """
        return not has_id(topic_id) and self._ends_before(name, position)

    def _ends_before(self, name: str, position: int) -> bool:
        return self._topics.high_watermark(name, self._partition) < position
