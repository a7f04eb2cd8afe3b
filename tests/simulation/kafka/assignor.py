"""The assignment of a group's partitions to its members, as librdkafka's `cooperative-sticky` assignor makes it.

Pure. A member keeps what it has as far as the load stays even. What changes hands is left out: its owner gives it up
first, and the rebalance that follows gives it to the other.
"""

from collections.abc import Iterable, Mapping

Place = tuple[str, int]
"""Topic and partition."""

Claim = tuple[Iterable[str], Iterable[Place]]
"""The topics of a member, and the partitions that it has."""


def assign(members: Mapping[str, Claim], counts: Mapping[str, int]) -> dict[str, list[Place]]:
    """Return the partitions of each member; `counts` has the number of partitions of each topic."""
    topics = {member: set(wanted) for member, (wanted, _) in members.items()}
    everything = {(topic, number) for topic, count in counts.items() for number in range(count)}
    owner = {
        place: member
        for member, (_, owned) in members.items()
        for place in owned
        if place in everything and place[0] in topics[member]
    }
    found: dict[str, list[Place]] = {member: [] for member in members}
    for place, member in sorted(owner.items()):
        found[member].append(place)
    for place in sorted(everything - owner.keys()):
        able = [member for member in found if place[0] in topics[member]]
        if able:
            found[min(able, key=lambda each: len(found[each]))].append(place)
    _level(found, topics)
    return {
        member: sorted(place for place in places if owner.get(place, member) == member)
        for member, places in found.items()
    }


def _level(found: dict[str, list[Place]], topics: Mapping[str, set[str]]) -> None:
    """Move partitions from members with many to those with few, until the load is even."""
    while True:
        for giver in sorted(found, key=lambda each: -len(found[each])):
            taker = min(found, key=lambda each: len(found[each]))
            movable = [place for place in found[giver] if place[0] in topics[taker]]
            if movable and len(found[giver]) - len(found[taker]) > 1:
                found[giver].remove(movable[-1])
                found[taker].append(movable[-1])
                break
        else:
            return
