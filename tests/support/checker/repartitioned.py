"""Judge a stream with routers: inputs whose records go to the partition of their id.

Pure, as `checker`, and it knows neither Kafka nor the code of router and worker. Each id passes once in all partitions
together, as one of its copies: as the first of some input partition, because an input partition keeps its order. Each
record without an id passes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from tests.support.checker.checker import Defect, Verdict, content_of
from tests.support.checker.id_sources import Id, IdOf
from tests.support.checker.record import Record

Group = Callable[[Record], object]
"""What keeps the order of its records, such as a key."""


def judge_repartitioned(
    raw: Mapping[str, Iterable[Record]],
    clean: Iterable[Record],
    id_of: IdOf,
    *,
    partition_of: Callable[[Record], int] | None = None,
    ordered_by: Group | None = None,
) -> Verdict:
    """Compare the inputs, by topic, with the output.

    `partition_of` is the expected partition of a record of the output. With `ordered_by`, records of a group that come
    from one input partition must stay in order; those whose id has copies in several are not judged by it.
    """
    verdict, judge = Verdict(), _Judge(id_of, ordered_by)
    for topic, records in raw.items():
        for record in records:
            judge.expect(topic, record)
            verdict.judged += 1
            verdict.expected += id_of(record) is None
    verdict.expected += len(judge.firsts)
    for record in clean:
        verdict.found += 1
        judge.compare(record, verdict)
        if partition_of is not None and record.partition != partition_of(record):
            verdict.misplaced.append(_defect(record, id_of(record)))
    judge.find_lost(verdict)
    return verdict


class _Judge:
    """Expected records, and those that were found.

    `firsts` has the first copy of each id in each input partition.
    """

    def __init__(self, id_of: IdOf, ordered_by: Group | None) -> None:
        self.firsts: defaultdict[Id, dict[tuple[str, int], Record]] = defaultdict(dict)
        self._nameless = Counter[object]()
        self._seen: dict[Id, Record] = {}
        self._furthest: dict[object, int] = {}
        self._id_of = id_of
        self._ordered_by = ordered_by

    def expect(self, topic: str, record: Record) -> None:
        """Add a record of an input."""
        identity = self._id_of(record)
        if identity is None:
            self._nameless[content_of(record)] += 1
        else:
            self.firsts[identity].setdefault((topic, record.partition), record)

    def compare(self, record: Record, verdict: Verdict) -> None:
        """Add the defects of a record of the output."""
        identity = self._id_of(record)
        if identity is None:
            self._nameless[content_of(record)] -= 1
            if self._nameless[content_of(record)] < 0:
                verdict.foreign.append(_defect(record, identity))
        elif identity not in self.firsts:
            verdict.foreign.append(_defect(record, identity))
        elif identity in self._seen:
            before = self._seen[identity]
            where = f"as {before.partition}/{before.offset}"
            verdict.duplicated.append(_defect(record, identity, where))
        else:
            self._seen[identity] = record
            firsts = self.firsts[identity]
            if content_of(record) not in map(content_of, firsts.values()):
                verdict.altered.append(
                    _defect(record, identity, "it is the first copy of no input partition")
                )
            elif not self._in_order(record, firsts):
                verdict.reordered.append(_defect(record, identity))

    def _in_order(self, record: Record, firsts: Mapping[tuple[str, int], Record]) -> bool:
        if self._ordered_by is None or len(firsts) > 1:
            return True
        ((place, first),) = firsts.items()
        group = (place, record.partition, self._ordered_by(record))
        before = self._furthest.get(group, -1)
        self._furthest[group] = max(before, first.offset)
        return first.offset > before

    def find_lost(self, verdict: Verdict) -> None:
        """Add what is expected and was not found."""
        for identity in self.firsts.keys() - self._seen.keys():
            first = next(iter(self.firsts[identity].values()))
            verdict.lost.append(Defect(first.partition, first.offset, None, identity))
        for content, count in self._nameless.items():
            if count > 0:
                verdict.lost.append(Defect(-1, None, None, None, f"{count} of {content!r:.80}"))


def _defect(clean: Record, identity: Id | None, detail: str = "") -> Defect:
    return Defect(clean.partition, None, clean.offset, identity, detail)
