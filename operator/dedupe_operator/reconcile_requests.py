"""Reconciles that a user asked for: one partition at a time, so that the others go on."""

from typing import Final

from dedupe_crds.annotations import ReconcileRequest, reconcile_request
from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.worker_client import WorkerClient, WorkerRefused

_REQUEUE_SECONDS: Final = 2.0


class ReconcileRequests:
    """Passes requests on to workers, which remember what they were asked and what came of it."""

    def __init__(self, workers: WorkerClient) -> None:
        self._workers = workers

    def act(self, context: ReconcileContext, result: ReconcileResult) -> None:
        """Go on with the request in the stream's annotations, if there is one."""
        request = reconcile_request(context.stream.metadata.annotations)
        if request is None or context.stream.spec.suspend:
            return
        self._tell_done(context, result, request)
        open_ones = [one for one in context.partitions if not _is_done(context, one, request)]
        open_ones = [
            one for one in open_ones if not request.partitions or one in request.partitions
        ]
        if not open_ones:
            return
        result.requeue_within(_REQUEUE_SECONDS)
        partition = open_ones[0]
        worker = context.workers.get(partition)
        if worker is None or _request_of(worker) == request.request:
            return  # it starts, or is at it
        body = {"request": request.request, "full": request.full}
        try:
            pod = context.observed.pods.get(partition)
            self._workers.post(pod, "/reconcile", body, context.admin_token)
        except WorkerRefused as error:
            problem = Problem(reason=error.reason, message=f"reconcile as asked: {error}")
            result.partition_problems.setdefault(partition, problem)
            return
        what = "its whole store" if request.full else "the tail"
        message = f"Partition {partition} compares {what} with the output topic, as asked."
        result.events.append(StreamEvent(reason="ReconcileAsked", message=message))

    def _tell_done(
        self, context: ReconcileContext, result: ReconcileResult, request: ReconcileRequest
    ) -> None:
        for partition, worker in context.workers.items():
            said = worker.comparison if worker else None
            if said is None or not said.done or said.request != request.request:
                continue
            if _is_on_record(context, partition, request):
                continue
            message = (
                f"Partition {partition} is reconciled: {said.records} output records read, {said.added} ids added, "
                f"{said.removed} removed, {said.aged_out} aged out before, {said.unverifiable} not verifiable."
            )
            if said.error:
                message = f"Partition {partition} could not be reconciled as asked: {said.error}"
            warning = said.error is not None
            result.events.append(
                StreamEvent(reason="ReconcileDone", message=message, warning=warning)
            )


def _is_done(context: ReconcileContext, partition: int, request: ReconcileRequest) -> bool:
    worker = context.workers.get(partition)
    if worker and worker.comparison and worker.comparison.request == request.request:
        return worker.comparison.done
    return _is_on_record(context, partition, request)


def _is_on_record(context: ReconcileContext, partition: int, request: ReconcileRequest) -> bool:
    recorded = context.recorded_partition(partition)
    known = recorded.comparison if recorded else None
    return known is not None and known.request == request.request and known.done


def _request_of(worker: WorkerStatus) -> str | None:
    return worker.comparison.request if worker.comparison else None
