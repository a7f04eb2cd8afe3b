"""What can be wrong around a stream: how each comes about, what the operator must say, and how it is mended."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from dedupe_crds.spec.stream import GROUP
from tests.e2e.support.forwarder import Forwarder
from tests.e2e.support.kubectl import KubectlFailed, Object
from tests.e2e.support.scene import Scene
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.topics import Topics
from tests.support.patience import wait_for
from tests.support.processes.secured_broker import PASSWORD, Certificate, SecuredBroker

WRONG_PASSWORD = "not-the-password-of-anyone"  # noqa: S105 # of nobody
MOUNT = "/etc/dedupestream/kafka"
_PLAIN = {"client.properties": "security.protocol=PLAINTEXT\n"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A stream in trouble, and how to get it out of it. `says` must all stand in the condition's message."""

    stream: ClusterStream
    reason: str
    says: tuple[str, ...]
    mend: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class World:
    """What the troubles share. In `crowded` one worker's pod has a place, and it is taken."""

    scene: Scene
    crowded: Scene
    secured: SecuredBroker
    certificate: Certificate


Trouble = Callable[[World], Case]


def kafka_refuses_connections(world: World) -> Case:
    way = Forwarder(world.scene.cluster.kafka_bootstrap_in_cluster)
    stream = world.scene.stream("refused", bootstrap=way.address)
    stream.apply()
    says = ("No answer as of a Kafka cluster", way.address, "network policies")
    return Case(stream=stream, reason="BrokerUnavailable", says=says, mend=way.open)


def kafka_has_no_address(world: World) -> Case:
    scene = world.scene
    host, _, port = scene.cluster.kafka_bootstrap_in_cluster.rpartition(":")
    name = f"kafka.{scene.namespace}.svc"
    stream = scene.stream("unresolved", bootstrap=f"{name}:{port}")
    stream.apply()

    def mend() -> None:
        scene.kubectl.apply(*_service("kafka", host, int(port)))

    says = ("No answer as of a Kafka cluster", name, "network policies")
    return Case(stream=stream, reason="BrokerUnavailable", says=says, mend=mend)


def the_input_topic_is_missing(world: World) -> Case:
    stream = world.scene.stream("noinput", raw=False, clean=False)
    stream.apply()

    def mend() -> None:
        world.scene.topics.create(stream.input_topic)

    says = (stream.input_topic, "does not exist", "create it")
    return Case(stream=stream, reason="TopicMissing", says=says, mend=mend)


def the_secret_is_missing(world: World) -> Case:
    stream, name = _secured(world, "nosecret", None)

    def mend() -> None:
        _write_secret(world.scene, name, _PLAIN)

    says = (f"Secret {stream.namespace}/{name}", "create it", "client.properties")
    return Case(stream=stream, reason="SecretMissing", says=says, mend=mend)


def the_secret_lacks_its_key(world: World) -> Case:
    stream, name = _secured(world, "nokey", {"kafka.properties": "sasl.password=" + PASSWORD})

    def mend() -> None:
        _write_secret(world.scene, name, _PLAIN)

    says = (f"Secret {stream.namespace}/{name}", "no key client.properties")
    return Case(stream=stream, reason="SecretIncomplete", says=says, mend=mend)


def the_credentials_are_wrong(world: World) -> Case:
    topics = Topics(world.secured.bootstrap_servers)
    stream, name = _secured(
        world,
        "denied",
        _credentials(world, WRONG_PASSWORD),
        bootstrap=world.secured.secured_servers,
        topics=topics,
    )

    def mend() -> None:
        _write_secret(world.scene, name, _credentials(world, PASSWORD))

    says = (world.secured.secured_servers, "refuses the credentials", "Secret")
    return Case(stream=stream, reason="NotAuthorized", says=says, mend=mend)


def the_output_topic_has_too_few_partitions(world: World) -> Case:
    topics = world.scene.topics
    stream = world.scene.stream("narrow", partitions=2, clean=False)
    topics.create(stream.output_topic, 1)
    stream.apply()

    def mend() -> None:
        topics.grow(stream.output_topic, 2)

    says = (stream.output_topic, "has 1 partitions", "partition count to 2")
    return Case(stream=stream, reason="OutputTopicTooFewPartitions", says=says, mend=mend)


def the_output_topic_is_compacted(world: World) -> Case:
    topics = world.scene.topics
    stream = world.scene.stream("compacted", clean=False)
    topics.create(stream.output_topic, 1, **{"cleanup.policy": "compact"})
    stream.apply()

    def mend() -> None:
        topics.configure(stream.output_topic, **{"cleanup.policy": "delete"})

    says = (stream.output_topic, "cleanup.policy to delete")
    return Case(stream=stream, reason="OutputTopicCompacted", says=says, mend=mend)


def the_output_topic_forgets_too_soon(world: World) -> Case:
    """Its worker runs nevertheless: what is passed on is right, and a lost store is another day's."""
    topics = world.scene.topics
    stream = world.scene.stream("forgetful", clean=False)
    topics.create(stream.output_topic, 1, **{"retention.ms": 3_600_000})
    stream.apply()

    def mend() -> None:
        topics.configure(stream.output_topic, **{"retention.ms": -1})

    says = (stream.output_topic, "keeps messages for 1h", "retention.ms")
    return Case(stream=stream, reason="OutputRetentionTooShort", says=says, mend=mend)


def the_storage_class_is_missing(world: World) -> Case:
    scene, name = world.scene, f"e2e-{uuid4().hex[:8]}"
    stream = scene.stream("noclass", storage={"storageClassName": name})
    stream.apply()

    def mend() -> None:
        copy_default_storage_class(scene, name)

    says = (f"StorageClass {name}", "spec.storage.storageClassName")
    return Case(stream=stream, reason="StorageClassMissing", says=says, mend=mend)


def the_storage_class_is_misspelt(world: World) -> Case:
    scene, name = world.scene, f"e2e-{uuid4().hex[:8]}"
    stream = scene.stream("misspelt", storage={"storageClassName": name})
    stream.apply()

    def mend() -> None:
        right = default_storage_class(scene)["metadata"]["name"]
        stream.patch(storage={"storageClassName": right})

    says = (f"StorageClass {name}", "spec.storage.storageClassName")
    return Case(stream=stream, reason="StorageClassMissing", says=says, mend=mend)


def the_quota_leaves_no_volume(world: World) -> Case:
    scene, name = world.scene, f"e2e-{uuid4().hex[:8]}"
    copy_default_storage_class(scene, name)
    limit = f"{name}.storageclass.storage.k8s.io/persistentvolumeclaims"
    set_quota(scene, "volumes", {limit: "0"})
    stream = scene.stream("novolume", storage={"storageClassName": name})
    stream.apply()

    def mend() -> None:
        set_quota(scene, "volumes", {limit: "1"})

    says = ("exceeded quota: volumes", "raise the namespace's ResourceQuota")
    return Case(stream=stream, reason="QuotaExceeded", says=says, mend=mend)


def the_quota_leaves_no_pod(world: World) -> Case:
    stream = world.crowded.stream("nopod")
    stream.apply()

    def mend() -> None:
        set_quota(world.crowded, "pods", {"pods": "2"})
        # Kubernetes tries again ever more rarely; a change of the StatefulSet has it try at once.
        mended = ("annotate", "statefulsets", "--selector", stream.selector, "e2e=mended")
        world.crowded.kubectl(*mended)

    says = ("exceeded quota: pods", "raise the namespace's ResourceQuota")
    return Case(stream=stream, reason="QuotaExceeded", says=says, mend=mend)


def admission_is_denied(world: World) -> Case:
    scene = world.scene
    stream = scene.stream("unwelcome")
    policy = f"e2e-{uuid4().hex[:8]}"
    scene.kubectl.apply(*_policy(policy, scene.namespace, stream.name))
    probe = _service("probe", None, 1)[0]
    probe["metadata"]["labels"] = {f"{GROUP}/stream": stream.name}

    def denied() -> bool:
        try:
            scene.kubectl("create", "--dry-run=server", "-f", "-", given=json.dumps(probe))
        except KubectlFailed as error:
            return "no address for you" in str(error)
        return False

    wait_for(denied, "the policy is in force", poll_seconds=0.5)
    stream.apply()

    def mend() -> None:
        scene.kubectl(
            "delete",
            f"validatingadmissionpolicies/{policy}",
            f"validatingadmissionpolicybindings/{policy}",
        )

    says = (policy, "no address for you", "policy")
    return Case(stream=stream, reason="AdmissionDenied", says=says, mend=mend)


# Those that take longest to be told come first.
TROUBLES: tuple[Trouble, ...] = (
    kafka_refuses_connections,
    kafka_has_no_address,
    the_credentials_are_wrong,
    the_storage_class_is_missing,
    the_storage_class_is_misspelt,
    the_input_topic_is_missing,
    the_secret_is_missing,
    the_secret_lacks_its_key,
    the_output_topic_has_too_few_partitions,
    the_output_topic_is_compacted,
    the_output_topic_forgets_too_soon,
    the_quota_leaves_no_volume,
    the_quota_leaves_no_pod,
    admission_is_denied,
)


def set_quota(scene: Scene, name: str, hard: Mapping[str, str]) -> None:
    """Set a ResourceQuota, and wait until it holds."""
    metadata = {"name": name}
    scene.kubectl.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}
    )

    def holds() -> bool:
        status = scene.kubectl.get("resourcequota", name).get("status", {})
        return bool(status.get("hard") == hard and status.get("used"))

    wait_for(holds, f"quota {name} holds", poll_seconds=0.5)


def default_storage_class(scene: Scene) -> Object:
    """The StorageClass of claims that name none."""
    mark = "storageclass.kubernetes.io/is-default-class"
    found = scene.kubectl.items("storageclasses")
    [default] = [
        one for one in found if (one["metadata"].get("annotations") or {}).get(mark) == "true"
    ]
    return default


def copy_default_storage_class(scene: Scene, name: str) -> None:
    """Make a class like the default one. It is removed with `remove_cluster_objects`."""
    like = default_storage_class(scene)
    kept = {field: like[field] for field in like if field != "metadata"}
    metadata = {"name": name, "labels": {f"{GROUP}/part-of": scene.namespace}}
    scene.kubectl.apply({**kept, "metadata": metadata})


def remove_cluster_objects(scene: Scene) -> None:
    """Remove what was made for a scene outside of its namespace."""
    kinds = "storageclasses,validatingadmissionpolicies,validatingadmissionpolicybindings"
    scene.kubectl("delete", kinds, "--selector", f"{GROUP}/part-of={scene.namespace}")


def _secured(
    world: World,
    title: str,
    secret: Mapping[str, str] | None,
    **given: Any,  # noqa: ANN401
) -> tuple[ClusterStream, str]:
    """A stream that names a Secret, and the Secret's name."""
    name = f"{title}-kafka"
    stream = world.scene.stream(title, **given)
    if secret is not None:
        _write_secret(world.scene, name, secret)
    stream.apply(kafka={**stream.document()["spec"]["kafka"], "configSecretRef": {"name": name}})
    return stream, name


def _write_secret(scene: Scene, name: str, data: Mapping[str, str]) -> None:
    encoded = {key: b64encode(value.encode()).decode() for key, value in data.items()}
    metadata = {"name": name}
    scene.kubectl.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}
    )


def _credentials(world: World, password: str) -> dict[str, str]:
    properties = world.secured.client_properties(password)
    return {
        "client.properties": properties.replace(str(world.certificate.pem), f"{MOUNT}/ca.crt"),
        "ca.crt": world.certificate.pem.read_text(),
    }


def _service(name: str, address: str | None, port: int) -> list[Object]:
    """A name in the cluster for an address out of it."""
    ports = [{"name": "kafka", "port": port}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"clusterIP": "None", "ports": ports},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": ports,
    }
    return [service, endpoints]


def _policy(name: str, namespace: str, stream: str) -> list[Object]:
    """Nobody may make a Service for a stream."""
    api = "admissionregistration.k8s.io/v1"
    metadata = {"name": name, "labels": {f"{GROUP}/part-of": namespace}}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["services"],
    }
    only = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchLabels": {f"{GROUP}/stream": stream}},
    }
    policy = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": "no address for you"}],
        },
    }
    binding = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": only},
    }
    return [policy, binding]
