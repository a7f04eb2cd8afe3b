"""Reconciles that a user asked for: one partition at a time, so that the others go on."""

from typing import Final

from dedupe_crds.annotations import ReconcileRequest, reconcile_request
from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator.controller.context import Findings, Look
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.stream_status import Notice
from dedupe_operator.worker_client import WorkerRefused, Workers

_LOOK_AGAIN_SECONDS: Final = 2.0


class Comparisons:
    """Passes requests on to workers, which remember what they were asked and what came of it."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def act(self, look: Look, findings: Findings) -> None:
        """Go on with the request in the stream's annotations, if there is one."""
        request = reconcile_request(look.stream.metadata.annotations)
        if request is None or look.stream.spec.suspend:
            return
        self._tell_done(look, findings, request)
        open_ones = [one for one in look.partitions if not _is_done(look, one, request)]
        open_ones = [
            one for one in open_ones if not request.partitions or one in request.partitions
        ]
        if not open_ones:
            return
        findings.look_again_within(_LOOK_AGAIN_SECONDS)
        partition = open_ones[0]
        worker = look.workers.get(partition)
        if worker is None or _request_of(worker) == request.request:
            return  # it starts, or is at it
        body = {"request": request.request, "full": request.full}
        try:
            pod = look.observed.pods.get(partition)
            self._workers.post(pod, "/reconcile", body, look.admin_token)
        except WorkerRefused as error:
            problem = Problem(reason=error.reason, message=f"reconcile as asked: {error}")
            findings.partition_problems.setdefault(partition, problem)
            return
        what = "its whole store" if request.full else "the tail"
        message = f"Partition {partition} compares {what} with the output topic, as asked."
        findings.notices.append(Notice(reason="ReconcileAsked", message=message))

    def _tell_done(self, look: Look, findings: Findings, request: ReconcileRequest) -> None:
        for partition, worker in look.workers.items():
            said = worker.comparison if worker else None
            if said is None or not said.done or said.request != request.request:
                continue
            if _is_on_record(look, partition, request):
                continue
            message = (
                f"Partition {partition} is reconciled: {said.records} output records read, {said.added} ids added, "
                f"{said.removed} removed, {said.aged_out} aged out before, {said.unverifiable} not verifiable."
            )
            if said.error:
                message = f"Partition {partition} could not be reconciled as asked: {said.error}"
            warning = said.error is not None
            findings.notices.append(
                Notice(reason="ReconcileDone", message=message, warning=warning)
            )


def _is_done(look: Look, partition: int, request: ReconcileRequest) -> bool:
    worker = look.workers.get(partition)
    if worker and worker.comparison and worker.comparison.request == request.request:
        return worker.comparison.done
    return _is_on_record(look, partition, request)


def _is_on_record(look: Look, partition: int, request: ReconcileRequest) -> bool:
    recorded = look.recorded_partition(partition)
    known = recorded.comparison if recorded else None
    return known is not None and known.request == request.request and known.done


def _request_of(worker: WorkerStatus) -> str | None:
    return worker.comparison.request if worker.comparison else None
