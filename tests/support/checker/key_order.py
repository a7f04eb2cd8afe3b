"""Judge the order of a key's records over all partitions of the output.

Pure. A stream whose routers go by key keeps the records of a key from one input partition in order, also while it gets
more partitions and the key changes to another one. Then only the times at which records became visible show the order.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tests.support.checker.checker import Defect
from tests.support.checker.id_sources import Id, IdOf
from tests.support.checker.record import Record

_Place = tuple[str, int]


def judge_key_order(
    raw: Mapping[str, Iterable[Record]], clean: Iterable[tuple[int, Record]], id_of: IdOf
) -> list[Defect]:
    """Return the records that came later than one behind them; `clean` has the time of each record.

    Not judged are ids with copies in several input partitions, and records that became visible at the same time.
    """
    firsts: defaultdict[Id, dict[_Place, Record]] = defaultdict(dict)
    for topic, records in raw.items():
        for record in records:
            if (identity := id_of(record)) is not None:
                firsts[identity].setdefault((topic, record.partition), record)
    furthest: dict[tuple[_Place, bytes | None], tuple[int, int]] = {}
    found: list[Defect] = []
    for time_ms, record in sorted(clean, key=lambda each: each[0]):
        identity = id_of(record)
        if identity is None or len(firsts[identity]) != 1:
            continue
        ((place, first),) = firsts[identity].items()
        way = place, record.key
        offset, at_ms = furthest.get(way, (-1, -1))
        if first.offset < offset and at_ms < time_ms:
            found.append(Defect(record.partition, first.offset, record.offset, identity))
        if first.offset > offset:
            furthest[way] = first.offset, time_ms
    return found
