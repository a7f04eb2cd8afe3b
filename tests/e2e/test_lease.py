"""The Lease of an operator, on a real API server."""

from pathlib import Path

from tests.cluster.environment import Environment
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.operators import LocalOperator
from tests.support.patience import wait_for


def test_an_operator_that_ends_gives_its_lease_back(
    release: Environment, kubectl: Kubectl, namespace: str, tmp_path: Path
) -> None:
    def holders() -> list[str | None]:
        leases = kubectl.within(namespace).items("leases")
        return [lease["spec"].get("holderIdentity") or None for lease in leases]

    with LocalOperator(release, namespace, tmp_path / "operator.log") as operator:
        operator.start()
        wait_for(lambda: holders() == ["here"], "the operator has its Lease")

    assert holders() == [None]
