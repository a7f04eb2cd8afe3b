"""Keep the status of a large stream's partitions in one object for each group.

The status writer calls it. The stream's own status has the first group. All is read live: the operator decides from it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import groupby
from typing import Final

from pydantic import ValidationError

from dedupe_crds.annotations import STREAM
from dedupe_crds.spec.stream import API_VERSION
from dedupe_crds.status.partitions import KIND, PartitionsStatus, group_of
from dedupe_crds.status.stream import PartitionStatus, StreamStatus
from dedupe_operator.errors import KubernetesError, NameTaken, Unreachable
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import OURS, Object, partition_name
from dedupe_operator.kubernetes.resources import PARTITIONS
from dedupe_operator.resources import metadata

_NO_RIGHTS: Final = frozenset({"Forbidden", "NotFound"})


class PartitionGroups:
    """The groups of one stream after the first, as they were last read or written.

    `is_due` returns whether a change must be written now, from a group's name, its status before and the new one.
    """

    def __init__(
        self, api: KubernetesApi, is_due: Callable[[str, StreamStatus, StreamStatus], bool]
    ) -> None:
        self._api = api
        self._is_due = is_due
        self.forget()

    def forget(self) -> None:
        """Forget what was read: a write reads it again."""
        self._is_read = False
        self._live: dict[int, Object] = {}
        self._written: dict[int, StreamStatus] = {}
        self._unused: list[Object] = []

    def read(self, raw: Object, *, may_be_absent: bool) -> dict[int, PartitionStatus]:
        """Return the entries of all groups of a stream by partition.

        `may_be_absent`: its status knows of none, so that the lack of rights, or of the kind, is no failure. Raises
        KubernetesError.
        """
        self.forget()
        entries: dict[int, PartitionStatus] = {}
        for live in self._find(raw, may_be_absent=may_be_absent):
            found = _entries(live)
            first = _first_of(raw, live)
            if first == group_of(first) > 0:
                self._live[first], self._written[first] = live, StreamStatus(partitions=found)
            else:
                self._unused.append(live)
                entries |= {each.partition: each for each in found}
        for group in self._written.values():
            entries |= {each.partition: each for each in group.partitions}
        self._is_read = True
        return entries

    def write(
        self, raw: Object, partitions: Iterable[PartitionStatus]
    ) -> Mapping[int, KubernetesError]:
        """Write the groups that have changed; return why some could not be written.

        Each by its first partition. Raises KubernetesError.
        """
        groups = {
            first: StreamStatus(partitions=list(members))
            for first, members in groupby(partitions, lambda each: group_of(each.partition))
            if first
        }
        if groups and not self._is_read:
            self.read(raw, may_be_absent=True)
        refused: dict[int, KubernetesError] = {}
        for first, group in groups.items():
            try:
                self._write_group(raw, first, group)
            except Unreachable:
                raise
            except KubernetesError as error:
                refused[first] = error
        return refused

    @property
    def exist(self) -> bool:
        """Return whether there are objects, as far as they were read or written."""
        return bool(self._live or self._unused)

    def remove_unused(self, used: Collection[int]) -> None:
        """Delete what was read and has no partition of these groups.

        By then all that it had must be written elsewhere. Raises KubernetesError, ReadLive.
        """
        for first in self._live.keys() - set(used):
            self._unused.append(self._live.pop(first))
        while self._unused:
            self._api.delete(PARTITIONS, self._unused[-1])
            self._unused.pop()

    def _find(self, raw: Object, *, may_be_absent: bool) -> list[Object]:
        its = raw["metadata"]
        try:
            found = self._api.find(
                PARTITIONS, its["namespace"], labels={**OURS, STREAM: its["name"]}
            )
        except KubernetesError as error:
            if may_be_absent and error.reason in _NO_RIGHTS:
                return []
            raise
        return [each for each in found if _first_of(raw, each) and _is_owned(each, its["uid"])]

    def _write_group(self, raw: Object, first: int, group: StreamStatus) -> None:
        name, live = partition_name(raw["metadata"]["name"], first), self._live.get(first)
        if live is not None and not self._is_due(name, self._written[first], group):
            return
        ready = sum(each.ready for each in group.partitions)
        status = PartitionsStatus(
            partitions_ready=f"{ready}/{len(group.partitions)}", partitions=group.partitions
        )
        wanted: Object = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": metadata.of_group(raw, name),
            "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        if live is None:
            self._live[first] = self._create(wanted)
        else:
            # The UID prevents that it is written to one that was made meanwhile, of which nothing was read.
            wanted["metadata"]["uid"] = live["metadata"]["uid"]
            self._live[first] = self._api.apply(wanted)
        self._written[first] = group

    def _create(self, wanted: Object) -> Object:
        """Create a group. An apply would change an object of others that has its name."""
        try:
            return self._api.create(wanted)
        except KubernetesError as error:
            its = wanted["metadata"]
            if error.reason != "Conflict":
                raise
            live = self._api.get(PARTITIONS, its["namespace"], its["name"])
            if live is None:
                raise
            raise NameTaken({**wanted, **live}) from error


def _entries(live: Object) -> list[PartitionStatus]:
    """Return the entries of a group; none if they can't be read, as of a lost status."""
    try:
        status = PartitionsStatus.model_validate(live.get("status") or {}, extra="ignore")
    except ValidationError:
        return []
    return status.partitions


def _first_of(raw: Object, live: Object) -> int:
    """Return the first partition in the name of a stream's group; 0 for another name."""
    own = re.fullmatch(
        rf"{re.escape(raw['metadata']['name'])}-([1-9][0-9]{{0,4}})", live["metadata"]["name"]
    )
    return int(own[1]) if own else 0


def _is_owned(live: Object, uid: str) -> bool:
    owners = live["metadata"].get("ownerReferences") or []
    return uid in {owner.get("uid") for owner in owners}
