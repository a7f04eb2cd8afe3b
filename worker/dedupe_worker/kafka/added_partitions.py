"""Find partitions of the input that have records and that no worker has ever read.

A higher partition count of the topic changes where producers send a key: its copies may be in an old
partition and in a new one, and then each of them passes. Kafka tells which partitions were read: a worker commits an
offset at its first start. The offset of a partition without traffic expires, but its output stays.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from dedupe_crds.formatting import ranges
from dedupe_worker.kafka.admin import Topic, Topics
from dedupe_worker.kafka.committed import Committed

_REMEDY: Final = (
    "until a worker runs for them nothing of them passes, and copies of an id may be in an old partition and in a new "
    "one. To have workers for them, set spec.input.addedPartitions to Accept; else send all records to the old ones"
)


class Group(Protocol):
    """The part of `PartitionReader` that this needs."""

    def committed_of(self, partitions: Sequence[int]) -> dict[int, Committed]: ...  # noqa: D102


class AddedPartitions:
    """Looks for such partitions while a session runs."""

    def __init__(self, topics: Topics, input_topic: Topic, output_topic: Topic) -> None:
        self._topics = topics
        self._input = input_topic.name
        self._output = output_topic
        self._known = input_topic.partitions
        self._asked = False
        self._has_run = False
        self._unread: list[int] = []

    def problem(self, group: Group, partitions: int) -> str:
        """Return a sentence about such partitions of so many; empty if there are none.

        Raises StreamError.
        """
        unread = self.find(group, partitions)
        if not unread:
            return ""
        which = f"partition{'s' * (len(unread) > 1)} {ranges(unread)}"
        return f"no worker has ever read {which} of input topic {self._input}: {_REMEDY}"

    def find(self, group: Group, partitions: int) -> list[int]:
        """Return those of the partitions that no worker has read.

        A session first looks when it has run for a while: workers that start with it commit their first offsets. After
        that it asks Kafka only if the number has changed, or while there are such partitions. Raises StreamError.
        """
        is_known = partitions == self._known and not self._unread
        if is_known and (self._asked or not self._has_run):
            self._has_run = True
            return []
        self._has_run = self._asked = True
        self._known = partitions
        self._unread = self._ask(group) if partitions > 1 else []
        return self._unread

    def _ask(self, group: Group) -> list[int]:
        """Ask for ends first: with output, a partition's offset is not needed.

        An offset in an open transaction is waited for, and in a busy stream one of many partitions always has one.
        """
        ends = self._topics.ends(self._input, range(self._known))
        with_records = [each for each, end in ends.items() if end > 0]
        there = [each for each in with_records if each < self._output.partitions]
        written = self._topics.ends(self._output.name, there) if there else {}
        unread = [each for each in with_records if not written.get(each)]
        return sorted(set(unread) - set(group.committed_of(unread))) if unread else []
