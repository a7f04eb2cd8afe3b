"""Put together what is known of a stream's routers; diagnose those not ready.

The reconciler calls it at the end of a pass, before it writes the status. It reads Kubernetes events, nothing else.
"""

from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide import diagnosis
from dedupe_operator.decide.diagnosis import ROUTER, Problem
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.decide.router_status import RoutersView
from dedupe_operator.resources import router_stateful_set


def router_view(context: ReconcileContext, result: ReconcileResult) -> RoutersView | None:
    """Return a view of the routers; None while the workers run without any.

    Raises KubernetesError.
    """
    if context.stream.spec.repartition is None or (context.growth and context.growth.direct):
        return None
    pods, replicas = context.observed.routers, router_stateful_set.replicas(context.stream)
    problems: dict[int, Problem] = {}
    for router in range(replicas):
        if is_ready(pods.get(router)):
            continue
        problem = result.router_problems.get(router)
        problem = problem or diagnosis.of_router(context.routers.get(router))
        problem = problem or _diagnose(context, router)
        if problem is not None:
            problems[router] = problem
    return RoutersView(
        replicas=replicas,
        pods=pods,
        reports={router: status for router, status in context.routers.items() if status},
        problems=problems,
    )


def _diagnose(context: ReconcileContext, router: int) -> Problem | None:
    """Return what Kubernetes reports about a router that is not ready."""
    pod, stateful_set = context.observed.routers.get(router), context.observed.router_set
    events = context.events.about(pod or stateful_set)
    return diagnosis.of_pod(pod, stateful_set, events, context.now, ROUTER)
