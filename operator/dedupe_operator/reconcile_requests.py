"""Pass a user's reconcile request to workers, one partition at a time.

The reconciler calls it once a pass. The other partitions continue to process messages meanwhile.
"""

from typing import Final

from dedupe_crds.annotations import ReconcileRequest, is_outdated, reconcile_request
from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.worker_client import WorkerClient, WorkerRefused

_REQUEUE_SECONDS: Final = 2.0


class ReconcileRequests:
    """Passes requests to workers. A worker remembers its last request and the result."""

    def __init__(self, workers: WorkerClient) -> None:
        self._workers = workers

    def act(self, context: ReconcileContext, result: ReconcileResult) -> None:
        """Continue the request in the stream's annotations, if there is one."""
        request = reconcile_request(context.stream.metadata.annotations)
        if request is None or context.stream.spec.suspend:
            return
        if is_outdated(request.request, context.created):
            return  # it was made for a stream that was replaced
        self._report_finished(context, result, request)
        wanted = set(context.partitions) - context.joining
        unfinished = [
            partition
            for partition in context.partitions
            if not _is_done(context, partition, request)
            # Unless it is named, what is being added is left out: it may learn for hours.
            and partition in (request.partitions or wanted)
        ]
        if not unfinished:
            return
        result.requeue_within(_REQUEUE_SECONDS)
        partition = unfinished[0]
        worker = context.workers.get(partition)
        if worker is None or _request_of(worker) == request.request:
            return  # it starts, or works on this request
        body = {"request": request.request, "full": request.full}
        try:
            pod = context.observed.pods.get(partition)
            self._workers.post(pod, "/reconcile", body, context.admin_token)
        except WorkerRefused as error:
            problem = Problem(
                reason=error.reason, message=f"the requested {_kind(request)} was refused: {error}"
            )
            result.partition_problems.setdefault(partition, problem)
            return
        message = (
            f"Partition {partition} started the requested {_kind(request)} with the output topic."
        )
        result.events.append(StreamEvent(reason="StoreReconcileStarted", message=message))

    def _report_finished(
        self, context: ReconcileContext, result: ReconcileResult, request: ReconcileRequest
    ) -> None:
        for partition, worker in context.workers.items():
            answer = worker.comparison if worker else None
            if answer is None or not answer.done or answer.request != request.request:
                continue
            if _is_on_record(context, partition, request):
                continue
            message = (
                f"Partition {partition} finished the requested {_kind(request)}: {answer.records} output records "
                f"read, {answer.added} ids added, {answer.removed} removed, {answer.aged_out} aged out before, "
                f"{answer.unverifiable} not verifiable."
            )
            if answer.error:
                message = f"The requested {_kind(request)} of partition {partition} failed: {answer.error}"
            warning = answer.error is not None
            result.events.append(
                StreamEvent(reason="StoreReconcileFinished", message=message, warning=warning)
            )


def _kind(request: ReconcileRequest) -> str:
    return "full reconcile" if request.full else "catch-up"


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
