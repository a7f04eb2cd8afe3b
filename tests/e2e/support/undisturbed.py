"""Whether a stream was let alone."""

from tests.e2e.support.stream import ClusterStream


def state_of(stream: ClusterStream) -> list[str]:
    """Its StatefulSets and pods, with how often each was changed and started: the same while it is let alone.

    Whether it is ready is not among them: a probe may miss on a busy machine, with nobody's doing.
    """
    return [
        *(
            f"{one['metadata']['uid']} generation {one['metadata']['generation']}"
            for one in stream.children("statefulsets")
        ),
        *(
            f"{pod['metadata']['uid']} {pod['status']['containerStatuses'][0]['restartCount']}"
            for pod in stream.children("pods")
        ),
    ]
