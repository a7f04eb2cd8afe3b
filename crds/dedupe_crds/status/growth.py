"""Model of the growth of a stream: which step it is at, and what it waits for.

The controller of the growth makes it; the operator, the kubectl plugin and the local runner show it.
"""

from enum import StrEnum

from pydantic import Field

from dedupe_crds.status.report import Report


class GrowthStep(StrEnum):
    """Step of a growth, in the order of the steps.

    HANDING_OVER is the first one of a stream that gets routers. The metric of the step has numbers in this order.
    """

    LEARNING = "Learning"
    WAITING_FOR_ROUTERS = "WaitingForRouters"
    WAITING_FOR_WORKERS = "WaitingForWorkers"
    READING_REST = "ReadingRest"
    HANDING_OVER = "HandingOver"
    DONE = "Done"


class GrowthStatus(Report):
    """The present growth of a stream, or the last one."""

    epoch: int = Field(description="The number of this growth, from 1 on; 0 is a stream's start.")
    before: int = Field(description="The number of partitions before it.")
    partitions: int = Field(description="The number of partitions after it.")
    adds_routers: bool = Field(
        default=False,
        description="The stream had no routers before: each worker read a partition of the input.",
    )
    step: GrowthStep = Field(
        description="HandingOver: the stream gets its routers, and workers stop reading the input themselves. "
        "Learning: workers of new partitions read the ids that will be theirs from the output. WaitingForRouters: "
        "routers adopt the new number, each input partition alone. WaitingForWorkers: old workers process what was "
        "routed before. ReadingRest: new workers read what these have written meanwhile. Done."
    )
    done: int = Field(
        description="Number of new partitions, input partitions or old partitions that are past this step."
    )
    total: int = Field(description="Number of partitions that must pass this step.")
    waiting_for: list[str] = Field(
        default=[], description="What this step waits for: partitions, the first ten of them."
    )

    @property
    def line(self) -> str:
        """Return a sentence for a table. That of a stream that gets routers says so.

        >>> GrowthStatus(epoch=1, before=4, partitions=6, step=GrowthStep.LEARNING, done=1, total=2).line
        'Growth from 4 to 6 partitions: Learning, 1 of 2.'
        """
        waiting = f", waiting for {', '.join(self.waiting_for)}" if self.waiting_for else ""
        kind = "Change to routers" if self.adds_routers else "Growth"
        return (
            f"{kind} from {self.before} to {self.partitions} partitions: {self.step}, "
            f"{self.done} of {self.total}{waiting}."
        )
