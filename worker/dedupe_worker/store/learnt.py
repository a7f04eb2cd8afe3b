"""Up to where a store has the ids of other output partitions.

The worker of a partition that was added learns the ids that became its own from the old partitions (recovery/learning).
What it has learnt is a text in the store's metadata, written in the same batch as the ids, so a snapshot has it too:

    1/0:1207,1/1:1180

Each entry names the epoch that has added the partition, an old partition, and the position in that partition's output
before which all ids are in the store.
"""

from collections.abc import Mapping


class LearntOutputs:
    """The positions of one store. Raises ValueError for a text of another form."""

    def __init__(self, text: str = "") -> None:
        self._positions: dict[tuple[int, int], int] = {}
        for entry in filter(None, text.split(",")):
            place, _, position = entry.partition(":")
            epoch, _, partition = place.partition("/")
            self._positions[int(epoch), int(partition)] = int(position)

    @property
    def text(self) -> str:
        """Return the positions as text.

        >>> learnt = LearntOutputs("1/0:7")
        >>> learnt.advance(1, {0: 9, 1: 4})
        >>> learnt.text
        '1/0:9,1/1:4'
        """
        return ",".join(
            f"{epoch}/{partition}:{position}"
            for (epoch, partition), position in sorted(self._positions.items())
        )

    def of(self, epoch: int) -> dict[int, int]:
        """Return the position in each old output, if it is of this epoch."""
        return {at: position for (each, at), position in self._positions.items() if each == epoch}

    def advance(self, epoch: int, positions: Mapping[int, int]) -> None:
        """Record with the next write that all ids before these positions are stored."""
        for partition, position in positions.items():
            self._positions[epoch, partition] = position
