"""Count the records without a usable id by why, and report the kinds of them.

Records with an id cost nothing here: only the others are read one by one.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import structlog
from confluent_kafka import Message

from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_ids.batch import Rows
from dedupe_ids.missing import MissingId, WhyMissing, describe
from dedupe_kafka.headers import headers_of
from dedupe_worker.status import Degraded, WorkerState

_NAMES_SHOWN: Final = 10

log = structlog.get_logger()


class MissingIds:
    """The records without a usable id that a worker has read since it started."""

    def __init__(self, source: IdSource, worker_state: WorkerState) -> None:
        self._source = source
        self._worker_state = worker_state
        self._why = WhyMissing(source)
        # With the first record of each kind and no number that grows: each new message is a write to Kubernetes.
        self._kinds: dict[MissingId, str] = {}

    def count(self, records: Sequence[Message], with_id: Rows) -> None:
        """Count the records of a batch that are not at the positions `with_id`.

        The tally's `consumed` must have the batch already.
        """
        without = len(records) - len(with_id)
        if not without:
            return
        missing = np.ones(len(records), np.bool_)
        missing[with_id] = False
        tally = self._worker_state.tally
        tally.without_id += without
        for row in np.flatnonzero(missing).tolist():
            record = records[row]
            why = self._why(record)
            tally.missing_ids[why] += 1
            if why not in self._kinds:
                self._add_kind(why, record)
        self._worker_state.degradations.record(Degraded.MISSING_IDS, self._message(), without)

    def _add_kind(self, why: MissingId, record: Message) -> None:
        found = f"{describe(why, self._source)}, first at offset {record.offset()}"
        if why is MissingId.HEADER_ABSENT:
            found += f", which has {_names(record)}"
        self._kinds[why] = found
        log.warning(
            "record has no usable id: it passes, and its repeats are not recognised",
            reason=str(why),
            offset=record.offset(),
            found=found,
        )

    def _message(self) -> str:
        tally = self._worker_state.tally
        kinds = "; ".join(text for _, text in sorted(self._kinds.items()))
        if tally.without_id < tally.consumed:
            return f"records have no usable id by spec.id: they pass, and their repeats are not recognised ({kinds})"
        is_header = self._source.from_ is IdFrom.HEADER
        hint = "; names of headers are case-sensitive" if is_header else ""
        return (
            "no record so far has a usable id by spec.id, so nothing is deduplicated: "
            f"correct spec.id, or the producers{hint} ({kinds})"
        )


def _names(record: Message) -> str:
    names = sorted({name for name, _ in headers_of(record) or ()})
    if not names:
        return "no headers"
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"the headers {', '.join(map(repr, names[:_NAMES_SHOWN]))}{more}"
