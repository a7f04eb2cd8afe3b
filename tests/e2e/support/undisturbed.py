"""Whether a stream was let alone."""

from tests.e2e.support.stream import ClusterStream


def state_of(stream: ClusterStream) -> list[str]:
    """Since when it is ready, and its pods with how often each was started: the same while it is let alone."""
    ready = stream.condition("Ready")
    assert ready is not None, f"the operator has not seen the newest spec of {stream.name}"
    return [
        f"Ready {ready.status} since {ready.last_transition_time}",
        *(
            f"{pod['metadata']['uid']} {pod['status']['containerStatuses'][0]['restartCount']}"
            for pod in stream.children("pods")
        ),
    ]
