"""The API server without kubectl between: fast enough for tables of manifests."""

import json
from dataclasses import dataclass, field

from kubernetes import client, config

from dedupe_crds.openapi import PLURAL
from dedupe_crds.spec.stream import API_VERSION
from tests.cluster.environment import Environment
from tests.e2e.support.kubectl import Object
from tests.support.patience import HANG_SECONDS

_RULES_SKIPPED = "some validation rules were not checked"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the API server would make of a manifest: `accepted` as it would be kept, or all that is wrong."""

    accepted: Object | None = None
    problems: list[str] = field(default_factory=list)


class ApiServer:
    """Asks what would come of an object, as `kubectl apply --dry-run=server` does, or creates and changes it."""

    def __init__(self, cluster: Environment, plural: str = PLURAL) -> None:
        self._plural = plural
        configuration = client.Configuration()
        config.load_kube_config(cluster.kubeconfig, client_configuration=configuration)
        self._client = client.ApiClient(configuration)

    def create(
        self, document: Object, namespace: str = "default", *, dry_run: bool = True
    ) -> Answer:
        """Create an object."""
        return self._ask("POST", self._path(namespace), document, dry_run=dry_run)

    def change(self, namespace: str, name: str, changes: Object, *, dry_run: bool = True) -> Answer:
        """Merge changes into one that is there."""
        return self._ask("PATCH", f"{self._path(namespace)}/{name}", changes, dry_run=dry_run)

    def _path(self, namespace: str) -> str:
        return f"/apis/{API_VERSION}/namespaces/{namespace}/{self._plural}"

    def _ask(self, method: str, path: str, body: Object, *, dry_run: bool) -> Answer:
        asked = [("dryRun", "All")] if dry_run else []
        request = self._client.param_serialize(
            method,
            path,
            query_params=[*asked, ("fieldValidation", "Strict")],
            header_params={
                "Accept": "application/json",
                "Content-Type": "application/json"
                if method == "POST"
                else "application/merge-patch+json",
            },
            body=json.loads(json.dumps(body)),
            auth_settings=["BearerToken"],
        )
        answer = self._client.call_api(*request, _request_timeout=HANG_SECONDS)
        found: Object = json.loads(answer.read())
        if 200 <= answer.status < 300:
            return Answer(accepted=found)
        return Answer(problems=_problems(found))


def _problems(refusal: Object) -> list[str]:
    """Each thing that is wrong on a line of its own, as kubectl writes it."""
    causes = (refusal.get("details") or {}).get("causes") or []
    lines = [f"{cause.get('field')}: {cause['message']}" for cause in causes]
    return [line for line in lines if _RULES_SKIPPED not in line] or [refusal["message"]]
