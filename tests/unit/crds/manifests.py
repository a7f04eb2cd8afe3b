"""A good manifest, and the bad ones that differ from it in a field or two."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

ORDERS = """\
apiVersion: dedupestream.io/v1alpha1
kind: DedupeStream
metadata: {name: orders, namespace: shop}
spec:
  kafka: {bootstrapServers: "kafka:9092", configSecretRef: {name: orders-kafka}}
  input:  {topic: orders}
  output: {topic: orders-clean}
  id: {from: Key}
  store:
    type: RocksDB
    window: {maxBytes: 8Gi, maxAge: 28d, alertBelow: 24h}
  duplicates: {policy: Drop}
  mode: Enforce
  storage: {size: 20Gi, storageClassName: gp3, reclaimPolicy: Retain}
  snapshots: {provider: CSI, schedule: "*/15 * * * *", keep: 4}
  failover: {nodeNotReadyAfter: 60s}
  worker:
    image: registry.example/dedupe-worker:0.1.0
    resources: {requests: {cpu: 500m, memory: 400Mi}, limits: {cpu: 2}}
  suspend: false
"""

MINIMAL: dict[str, Any] = {
    "apiVersion": "dedupestream.io/v1alpha1",
    "kind": "DedupeStream",
    "metadata": {"name": "orders"},
    "spec": {
        "kafka": {"bootstrapServers": "kafka:9092"},
        "input": {"topic": "orders"},
        "output": {"topic": "orders-clean"},
        "id": {"from": "Key"},
    },
}


class Removal:
    """What stands for a field that is taken away, by one name in every run's test titles."""

    def __repr__(self) -> str:
        return "REMOVED"


REMOVED = Removal()


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """The minimal manifest with values set, or REMOVED, at dotted paths."""
    document = deepcopy(MINIMAL)
    for path, value in changes.items():
        *parents, last = path.split(".")
        node = document
        for name in parents:
            node = node.setdefault(name, {})
        if value is REMOVED:
            del node[last]
        else:
            node[last] = value
    return document


@dataclass(frozen=True)
class BadManifest:
    """What is changed, and the path and a part of each sentence that its user must read.

    `server` is what the API server says if that does not follow from what Python says of it; None if
    it never sees what is wrong.
    """

    changes: dict[str, Any]
    problems: list[tuple[str, str]]
    title: str = field(default="")
    server: str | None = field(default="", kw_only=True)

    def __str__(self) -> str:
        """Name the case in a test's title."""
        return self.title or ",".join(f"{path}={value!r}" for path, value in self.changes.items())


def bad(
    path: str, value: object, hint: str, at: str = "", *, server: str | None = ""
) -> BadManifest:
    """One field that is wrong, and told of at its own path unless `at` says another."""
    return BadManifest({path: value}, [(at or path, hint)], server=server)


LONG = "a" * 250
TYPOS = [
    bad("spec.kafak", {}, "unknown field; did you mean spec.kafka?"),
    bad("spec.store.window.maxByte", "8Gi", "did you mean spec.store.window.maxBytes?"),
    bad("spec.store.window.max_bytes", "8Gi", "did you mean spec.store.window.maxBytes?"),
    bad("spec.generations", 4, "did you mean spec.store.window.generations?"),
    bad("spec.partitions", 4, "unknown field; did you mean spec.repartition?"),
    bad("spec.colour", 4, "unknown field; allowed here: kafka, input, output, id"),
    bad("metadata.lables", {}, "did you mean metadata.labels?"),
    bad("spec.id.from", "Headr", "'Headr' is not allowed; did you mean Header?"),
    bad("spec.id.from", "key", "did you mean Key?; allowed: Key, Header, JsonPath, Content"),
    bad("spec.mode", "Dry-run", "'Dry-run' is not allowed; allowed: Enforce, Observe"),
    bad("spec.store.type", "rocksdb", "did you mean RocksDB?"),
    bad("spec.storage.reclaimPolicy", "Keep", "allowed: Retain, Delete"),
    bad("spec.snapshots", {"provider": "GCE", "schedule": "@daily"}, "allowed: CSI, EBS, S3",
        "spec.snapshots.provider"),
]  # fmt: skip
OWN_NAMES = [
    bad("spec.worker.labels", {"dedupestream.io/stream": "x"}, "keys of the operator's own"),
    bad("spec.worker.annotations", {"app.kubernetes.io/name": "x"}, "keys of the operator's own"),
    bad("spec.worker.priorityClassName", "High", "the name of a Kubernetes object"),
    bad("spec.worker.imagePullSecrets", [{"name": "a_b"}], "the name of a Kubernetes object",
        "spec.worker.imagePullSecrets.0.name", server="must be the name of a Kubernetes object"),
    bad("spec.worker.env", [{"name": "DEDUPE_WORKER_HTTP", "value": "x"}], "operator's own",
        "spec.worker.env.0.name", server="is a variable of the operator's own"),
    bad("spec.worker.volumes", [{"name": "state", "emptyDir": {}}], "operator's own",
        "spec.worker.volumes.0.name", server="is a name of the operator's own"),
    bad("spec.worker.sidecars", [{"name": "worker", "image": "x"}], "operator's own",
        "spec.worker.sidecars.0.name", server="is a name of the operator's own"),
    *(
        bad(f"spec.worker.{field}", [{"name": "A_", "mountPath": "/a"}], "as a DNS label",
            f"spec.worker.{field}.0.name", server="as a DNS label")
        for field in ("volumes", "volumeMounts", "sidecars")
    ),
    *(
        bad(f"spec.worker.{field}", [{"name": "a"}, {"name": "a"}], "must have each name once")
        for field in ("imagePullSecrets", "env", "volumes", "sidecars")
    ),
    *(
        bad("spec.worker.volumeMounts", [{"name": "a", "mountPath": path}], "the worker's own",
            "spec.worker.volumeMounts.0.mountPath", server="a path of the worker's own")
        for path in ("/etc", "/tmp", "/var/lib/dedupestream/state")  # noqa: S108 # the container's
    ),
    bad("spec.worker.volumeMounts", [{"name": "a", "mountPath": "/a/../tmp"}], "an absolute path",
        "spec.worker.volumeMounts.0.mountPath", server="an absolute path"),
]  # fmt: skip
MISSING = [
    bad("spec", REMOVED, "is required"),
    bad("metadata", REMOVED, "is required", server="metadata.name: Required value"),
    bad("spec.kafka", REMOVED, "is required: The Kafka cluster."),
    bad("spec.input", {}, "{} must have exactly one of topic, topics and pattern"),
    bad("spec.id", {}, "is required: Source of the id. Key: the record's key.", "spec.id.from"),
    bad("spec.kafka.configSecretRef", {}, "is required", "spec.kafka.configSecretRef.name"),
    bad("spec.snapshots", {"schedule": "@daily"}, "is required: CSI", "spec.snapshots.provider"),
    bad("spec.snapshots", {"provider": "S3", "s3": {}}, "is required: Name of the bucket.",
        "spec.snapshots.s3.bucket"),
]  # fmt: skip
TYPES = [
    bad("spec.input.topic", 5, "5 is not text; put it in quotes"),
    bad("spec.input.topic", None, "{} must have exactly one of topic, topics and pattern", "spec.input"),
    bad("spec.output.topic", ["a"], "['a'] is not text"),
    bad("spec.store", "RocksDB", "'RocksDB' is not a mapping of fields"),
    bad("spec.suspend", "yes", "'yes' is not true or false"),
    bad("spec.suspend", 1, "1 is not true or false"),
    bad("spec.store.window.generations", "5", "'5' is not a whole number"),
    bad("spec.store.window.generations", 4.5, "4.5 is not a whole number"),
    bad("metadata.labels", {"app.kubernetes.io/part": True}, "True is not text",
        "metadata.labels[app.kubernetes.io/part]", server="ObjectMeta.labels of type string"),
    bad("metadata.annotations", "none", "'none' is not a mapping of names to values",
        server="ObjectMeta.annotations of type map"),
    bad("spec.worker.resources.requests", {1: "1"}, "1 is not text",
        "spec.worker.resources.requests.1", server=None),  # JSON knows no other names
    bad("spec.output", {"topic": "a", 1: 1}, "1 is not a field name", "spec.output.1"),
]  # fmt: skip
SIZES = [
    bad("spec.store.window.maxBytes", "8GB", "'8GB' is not a size; write bytes as a Kubernetes"),
    bad("spec.store.window.maxBytes", "8 Gi", "'8 Gi' is not a size"),
    bad("spec.store.window.maxBytes", -1, "-1 is not a size", server="must be from 16Mi to 1Pi"),
    bad("spec.store.window.maxBytes", 0.5, "0.5 is not a size"),
    bad("spec.store.window.maxBytes", True, "True is not a size"),
    bad("spec.store.window.maxBytes", "1Mi", "'1Mi' must be from 16Mi to 1Pi"),
    bad("spec.store.window.maxBytes", 1000, "'1k' must be from 16Mi to 1Pi"),
    bad(
        "spec.storage.size",
        "99Ei",
        "is too large; write a size below 8Ei",
        server="from 20Mi to 16Pi",
    ),
    bad("spec.storage.size", "1Mi", "'1Mi' must be from 20Mi to 16Pi"),
    bad("spec.worker.tuning.queueBytes", "100Ki", "must be from 1Mi to 1Gi"),
    bad("spec.worker.tuning.blockCacheBytes", "0", "must be from 1Mi to 64Gi"),
    bad("spec.worker.resources.limits.cpu", "half", "'half' is not a Kubernetes quantity"),
    bad("spec.worker.resources.limits.cpu", 0.5, "0.5 is not a Kubernetes quantity"),
]
DURATIONS = [
    bad("spec.store.window.maxAge", "28 days", "'28 days' is not a duration; write whole numbers"),
    bad("spec.store.window.maxAge", 60, "60 is not a duration"),
    bad("spec.store.window.maxAge", "-5d", "'-5d' is not a duration"),
    bad("spec.store.window.maxAge", "", "'' is not a duration"),
    bad("spec.store.window.maxAge", "522w", "'3654d' must be from 1s to 3650d"),
    bad("spec.store.window.maxAge", "4000d", "'4000d' must be from 1s to 3650d"),
    bad(
        "spec.store.window.maxAge",
        "999999999999d",
        "is too long; write a shorter one",
        server="must be from 1s to 3650d",
    ),
    bad("spec.store.window.alertBelow", "3651d", "must be from 0s to 3650d"),
    bad("spec.worker.tuning.commitInterval", "0s", "'0s' must be from 1ms to 30s"),
    bad("spec.worker.tuning.commitInterval", "1m", "'1m' must be from 1ms to 30s"),
    bad("spec.worker.tuning.maxCommitInterval", "0s", "'0s' must be from 1ms to 30s"),
    bad("spec.worker.tuning.maxCommitInterval", "1m", "'1m' must be from 1ms to 30s"),
    bad("spec.failover.nodeNotReadyAfter", "1s", "'1s' must be from 5s to 1d"),
]
NUMBERS = [
    bad("spec.store.window.generations", 1, "1 is out of bounds; allowed: 2 to 16"),
    bad("spec.store.window.generations", 17, "17 is out of bounds; allowed: 2 to 16"),
    bad("spec.worker.tuning.maxBatchRecords", 0, "allowed: 1 to 1000000"),
    bad("spec.worker.tuning.maxTransactionRecords", 0, "allowed: 1 to 10000000"),
    bad("spec.snapshots", {"provider": "EBS", "schedule": "@daily", "keep": 0}, "allowed: 1 to 1000",
        "spec.snapshots.keep"),
]  # fmt: skip
TEXTS = [
    bad("metadata.name", "Orders", "'Orders' must be lower-case letters, digits and '-'"),
    bad("metadata.name", "1st", "beginning with a letter"),
    bad("metadata.name", "orders-", "not ending with '-'"),
    bad("metadata.name", "a" * 47, "is too long; allowed: at most 46 characters"),
    bad("metadata.name", "", "is empty", server="metadata.name: Required value"),
    bad("spec.input.topic", "a b", "'a b' must be a Kafka topic name"),
    bad("spec.input.topic", "..", "'..' must be a Kafka topic name"),
    bad("spec.input.topic", "orders\n", "must be a Kafka topic name"),
    bad("spec.input.topic", LONG, "is too long; allowed: at most 249 characters"),
    bad("spec.output.topic", ".", "'.' must be a Kafka topic name"),
    bad(
        "spec.input.acceptTruncated",
        [{"topic": "a b", "partition": 0, "offset": 1, "epoch": 2}],
        "must be a Kafka topic name",
        "spec.input.acceptTruncated.0.topic",
    ),
    bad(
        "spec.output.acceptTruncated",
        [{"topic": "a b", "partition": 0, "offset": 1, "found": "20260131T235959Z"}],
        "must be a Kafka topic name",
        "spec.output.acceptTruncated.0.topic",
    ),
    bad(
        "spec.output.acceptTruncated",
        [{"topic": "clean", "partition": 0, "offset": 1, "found": "today"}],
        "'today' must be the time that the message names",
        "spec.output.acceptTruncated.0.found",
    ),
    bad("spec.kafka.bootstrapServers", "kafka", "'kafka' must be host:port"),
    bad("spec.kafka.bootstrapServers", "kafka:0", "must be host:port"),
    bad("spec.kafka.bootstrapServers", "kafka:65536", "must be host:port"),
    bad("spec.kafka.bootstrapServers", "a:1, b:2", "no spaces between"),
    bad("spec.kafka.bootstrapServers", "SASL_SSL://a:1", "security.protocol"),
    *(
        bad("spec.kafka.bootstrapServers", text, f"{text!r} must be host:port")
        for text in ("localhost", "a:1,", ",a:1", "a:1,,b:2", " a:1", "a:1\n", "::1:9092", "[::1]",
                     "a:0x1", "a:-1", "a:", ":9092", "http://a:1/", "ä:1")
    ),
    bad("spec.kafka.configSecretRef.name", "My_Secret", "must be the name of a Kubernetes object"),
    bad("spec.storage.storageClassName", "GP3", "must be the name of a Kubernetes object"),
    bad("spec.snapshots", {"provider": "EBS", "schedule": "hourly"}, "must be a cron schedule",
        "spec.snapshots.schedule"),
    bad("spec.snapshots", {"provider": "EBS", "schedule": "* * * * * *"}, "must be a cron schedule",
        "spec.snapshots.schedule"),
]  # fmt: skip


def bad_snapshots(
    field: str, value: object, hint: str, *, at: str = "", server: str = ""
) -> BadManifest:
    """One field below spec.snapshots that is wrong, whoever the provider is."""
    changes = {"spec.snapshots.provider": "EBS", f"spec.snapshots.{field}": value}
    return BadManifest(changes, [(f"spec.snapshots.{at or field}", hint)], server=server)


def bad_bucket(field: str, value: object, hint: str, *, server: str = "") -> BadManifest:
    """One field of spec.snapshots.s3 that is wrong."""
    bucket = {"bucket": "backups", field: value}
    return bad_snapshots("s3", bucket, hint, at=f"s3.{field}", server=server)


SNAPSHOTS = [
    bad_snapshots("deadline", "9s", "'9s' must be from 10s to 7d"),
    bad_snapshots("deadline", "8d", "'8d' must be from 10s to 7d"),
    bad_snapshots("keepFor", "59s", "'59s' must be from 1m to 3650d"),
    bad_snapshots("keepFor", 7, "7 is not a duration"),
    bad_snapshots("csi.volumeSnapshotClassName", "GP3", "must be the name of a Kubernetes object"),
    bad_snapshots("csi.class", "gp3", "unknown field; allowed here: volumeSnapshotClassName"),
    bad_snapshots("ebs.region", "", "is empty", server="spec.snapshots.ebs.region: Invalid value"),
    bad_snapshots("ebs.tags", {f"tag{n}": "" for n in range(41)}, "has more than 40 entries",
                  server="spec.snapshots.ebs.tags: Too many"),
    bad_snapshots("s3", {"bucket": "abc", "credentialsSecretRef": {"name": "A"}}, "must be the name",
                  at="s3.credentialsSecretRef.name"),
    bad_snapshots("s3.bucket", "ab", "is too short; allowed: at least 3 characters",
                  server="spec.snapshots.s3.bucket: Invalid value"),
    bad_bucket("bucket", "Backups", "'Backups' must be the name of a bucket: 3 to 63"),
    bad_bucket("bucket", "backups-", "must be the name of a bucket"),
    bad_bucket("bucket", "a" * 64, "is too long; allowed: at most 63 characters"),
    bad_bucket("prefix", "/dedupe", "'/dedupe' must be a path without '/' at its ends"),
    bad_bucket("prefix", "dedupe/", "must be a path without '/' at its ends"),
    bad_bucket("prefix", "a//b", "must be a path without '/' at its ends"),
    bad_bucket("endpoint", "minio:9000", "must be a URL that begins with http:// or https://"),
    bad_bucket("endpoint", "http://minio:0", "must be a URL"),
    bad_bucket("region", "", "is empty", server="spec.snapshots.s3.region: Invalid value"),
    bad_bucket("encryption", "aws:kms", "allowed: BucketDefault, AES256, KMS"),
    bad_bucket("bandwidth", "1Ki", "'1Ki' must be from 64Ki to 100Gi"),
    bad_bucket("bandwidth", "1Ti", "'1Ti' must be from 64Ki to 100Gi"),
]  # fmt: skip
NOT_SINGULAR = [
    BadManifest(
        {"spec.id": {"from": "JsonPath", "path": path}},
        [("spec.id.path", "must be a JSONPath of names and indices that begins with $")],
    )
    for path in (
        "$",
        "$..id",
        "$.a[*]",
        "$.a b",
        "$.a.*",
        "$['a','b']",
        "$[0:2]",
        "$[-0]",
        "$.a ",
    )
]
RELATIONS = [
    *NOT_SINGULAR,
    BadManifest(
        {"spec.output.topic": "orders"},
        [("spec.output.topic", "'orders' must differ from the topics of spec.input")],
    ),
    BadManifest(
        {"spec.id.from": "Header"}, [("spec.id.name", "must name the header if spec.id.from is")]
    ),
    BadManifest({"spec.id.name": "h"}, [("spec.id.name", "'h' must name the header if")]),
    BadManifest(
        {"spec.id": {"from": "Header", "name": "h", "path": "$.id"}},
        [("spec.id.path", "must be absent otherwise")],
    ),
    BadManifest({"spec.id.from": "JsonPath"}, [("spec.id.path", "must be the path of the id")]),
    BadManifest(
        {"spec.id": {"from": "JsonPath", "path": "order.id"}},
        [("spec.id.path", "'order.id' must be a JSONPath of names and indices that begins with $")],
    ),
    BadManifest(
        {"spec.duplicates.policy": "Topic"}, [("spec.duplicates.topic", "must name a topic if")]
    ),
    BadManifest(
        {"spec.duplicates.topic": "again"}, [("spec.duplicates.topic", "must be absent otherwise")]
    ),
    BadManifest(
        {"spec.duplicates": {"policy": "Topic", "topic": "a/b"}},
        [("spec.duplicates.topic", "must be a Kafka topic name")],
    ),
    BadManifest(
        {"spec.duplicates": {"policy": "Topic", "topic": "orders-clean"}},
        [
            (
                "spec.duplicates.topic",
                "'orders-clean' must differ from the topics of spec.input, spec.output",
            )
        ],
    ),
    BadManifest(
        {"spec.store.window.maxBytes": "20Gi"},
        [("spec.storage.size", "'20Gi' (the default) must be at least 1.25 times")],
    ),
    BadManifest(
        {"spec.storage.size": "9Gi"},
        [("spec.storage.size", "'9Gi' must be at least 1.25 times spec.store.window.maxBytes")],
    ),
    BadManifest(
        {"spec.store.window.maxAge": "12h"},
        [("spec.store.window.alertBelow", "'1d' (the default) must be shorter than")],
    ),
    BadManifest(
        {"spec.store.window": {"maxAge": "2d", "alertBelow": "48h"}},
        [("spec.store.window.alertBelow", "'2d' must be shorter than spec.store.window.maxAge")],
    ),
    BadManifest(
        {"spec.worker.tuning": {"maxBatchRecords": 10, "maxTransactionRecords": 9}},
        [("spec.worker.tuning.maxTransactionRecords", "9 must be at least")],
    ),
    BadManifest(
        {"spec.snapshots.provider": "S3"},
        [("spec.snapshots.s3", "is required by spec.snapshots.provider: S3")],
    ),
    BadManifest(
        {"spec.snapshots": {"provider": "S3", "s3": {"bucket": "backups", "kmsKeyId": "key"}}},
        [("spec.snapshots.s3.kmsKeyId", "'key' is for spec.snapshots.s3.encryption: KMS only")],
    ),
    BadManifest(
        {"spec.snapshots.provider": "CSI", "spec.storage.size": "17Gi"},
        [("spec.snapshots", "needs spec.storage.size to be at least 2.25 times")],
    ),
]


def bad_route(field: str, value: object, at: str, hint: str) -> BadManifest:
    """A field about a topic beside the output that is wrong."""
    return BadManifest({f"spec.{field}": value}, [(f"spec.{field}{at}", hint)])


ROUTES = [
    *(
        bad_route(
            field, {"policy": "Topic", "topic": "a/b"}, ".topic", "must be a Kafka topic name"
        )
        for field in ("conflicts", "late")
    ),
    bad_route("conflicts", {"policy": "Topic"}, ".topic", "must name a topic if"),
    bad_route("conflicts", {"policy": "Ignore", "topic": "other"}, ".topic", "must be absent"),
    bad_route(
        "conflicts", {"policy": "Topic", "topic": "orders"}, ".topic", "'orders' must differ from"
    ),
    bad_route("late", {"policy": "Topic"}, ".topic", "must name a topic if"),
    bad_route("late", {"policy": "Pass", "topic": "late"}, ".topic", "must be absent"),
    bad_route(
        "late",
        {"policy": "Topic", "topic": "orders-clean-owners"},
        ".topic",
        "'orders-clean-owners' must differ from",
    ),
    bad_route("late", {"maxAge": "0s"}, ".maxAge", "must be from 1s to 3650d"),
    BadManifest(
        {
            "spec.output.topic": "o" * 242,
            "spec.output.filter": {"from": "Header", "name": "country"},
        },
        [("spec.output.filter", "at most 241 characters")],
    ),
    BadManifest(
        {
            "spec.input.topic": "clean-filters",
            "spec.output": {"topic": "clean", "filter": {"from": "Header", "name": "country"}},
        },
        [
            (
                "spec.output.topic",
                "'clean' with -filters appended must differ from the topics of spec.input",
            )
        ],
    ),
    *(
        BadManifest(
            {**topics, f"spec.{field}": {"policy": "Topic", "topic": "others"}},
            [
                (
                    f"spec.{field}.policy",
                    "'Topic' writes to spec.output.topic with -owners appended",
                )
            ],
        )
        for field in ("duplicates", "conflicts")
        for topics in (
            {"spec.output.topic": "o" * 243},
            {"spec.input.topic": "clean-owners", "spec.output.topic": "clean"},
        )
    ),
    bad_route("output.filter", {"from": "Header"}, ".name", "must name the header if"),
    bad_route("output.filter", {"from": "Header", "name": "a", "path": "$.a"}, ".path", "absent"),
    bad_route(
        "output.filter", {"from": "JsonPath", "path": "a.b"}, ".path", "must be a JSONPath of names"
    ),
    bad_route(
        "output.filter",
        {"from": "JsonPath", "path": "$..b"},
        ".path",
        "must be a JSONPath of names",
    ),
    bad_route("output.filter", {"from": "JsonPath"}, ".path", "must be the path of the value"),
    bad_route(
        "output.filter",
        {"from": "Header", "name": "a", "sizeBytes": 15},
        ".sizeBytes",
        "15 is out of bounds; allowed: 16 to 255",
    ),
]


def bad_stage(hint: str, at: str = "", *, server: str = "", **changes: Any) -> BadManifest:  # noqa: ANN401 # any field's value
    """Fields of a stream with repartition that are wrong; one path is told of."""
    given = {f"spec.{path}": value for path, value in changes.items()}
    return BadManifest(
        {"spec.repartition.partitions": 4} | given, [(f"spec.{at}", hint)], server=server
    )


INPUTS = [
    bad("spec.input", {"topic": "a", "topics": ["b"]}, "must have exactly one of"),
    bad("spec.input", {"topics": ["a"]}, "must be given with spec.input.topics", "spec.repartition"),
    bad("spec.input", {"pattern": "a.*"}, "must be given with spec.input.topics", "spec.repartition"),
    bad_stage("is empty", "input.topics", input={"topics": []}),
    bad_stage("must name each topic once", "input.topics", input={"topics": ["a", "a"]}),
    bad_stage("'a b' must be a Kafka topic", "input.topics.0", input={"topics": ["a b"]},
              server="spec.input.topics[0]: Invalid value"),
    bad_stage("must be a valid regular", "input.pattern", input={"pattern": "a(b"}),
    bad_stage("must be a regular expression of", "input.pattern", input={"pattern": "a b"}),
    bad_stage("must differ from the topics", "output.topic", input={"topics": ["a", "orders-clean"]}),
    bad_stage("must be absent with spec.input.added", "repartition",
              input={"topic": "orders", "addedPartitions": "Wait"}),
]  # fmt: skip
REPARTITIONS = [
    bad_stage("is required", "repartition.partitions", repartition={}),
    bad_stage("0 is out of bounds", "repartition.partitions", repartition={"partitions": 0}),
    bad_stage("did you mean Id", "repartition.by", repartition={"partitions": 4, "by": "id"}),
    bad_stage("0 is out of bounds", "repartition.routers.replicas",
              repartition={"partitions": 4, "routers": {"replicas": 0}}),
    bad_stage("must be from 1Mi to 1Pi", "repartition.topic.maxBytes",
              repartition={"partitions": 4, "topic": {"maxBytes": "1k"}}),
    *(
        bad_stage("differ from all other topics", "repartition.topic",
                  repartition={"partitions": 4, "topic": {"name": name}},
                  late={"policy": "Topic", "topic": "late"})
        for name in ("orders", "orders-clean", "orders-clean-owners", "orders-clean-filters", "late")
    ),
    bad_stage("'a b' must be a Kafka topic", "repartition.topic.name",
              repartition={"partitions": 4, "topic": {"name": "a b"}}),
    bad_stage("at most 249 characters", "repartition.topic", output={"topic": "o" * 240}),
    bad_stage("differ from all other topics", "repartition.topic",
              input={"topics": ["a", "orders-clean-repartition"]}),
]  # fmt: skip


def bad_table(table: object, *problem: str, **others: Any) -> BadManifest:  # noqa: ANN401 # any field's value
    """A table of fixed size that is wrong, and told of at a path below `spec.store.inverseBloom`, or elsewhere."""
    below, hint = problem
    path = below if below.startswith("spec") else f"spec.store.inverseBloom{below}"
    store = {"type": "InverseBloom", "inverseBloom": table}
    return BadManifest({"spec.store": store, **others}, [(path, hint)])


DUPLICATES = {"spec.duplicates": {"policy": "Topic", "topic": "orders-again"}}
CONFLICTS = {"spec.conflicts": {"policy": "Topic", "topic": "orders-odd"}}
TABLES = [
    BadManifest(
        {"spec.store.type": "InverseBloom"},
        [("spec.store.inverseBloom", "is required by spec.store.type: InverseBloom")],
    ),
    BadManifest(
        {"spec.store.inverseBloom": {"slots": 5000}},
        [("spec.store.inverseBloom", "must be absent otherwise")],
    ),
    bad_table({}, ".messages", "exactly one of slots, memory and messages (with retain)"),
    bad_table({"slots": 5000, "memory": "1Gi"}, ".messages", "exactly one of slots"),
    bad_table({"slots": 5000, "retain": 0.9}, ".retain", "0.9 belongs to"),
    bad_table({"messages": 5000}, ".retain", "give both, or neither"),
    bad_table({"messages": 10**12, "retain": 0.5}, ".retain", "needs more than 2^32 slots"),
    bad_table({"messages": 5 * 10**9, "retain": 0.4}, ".retain", "needs more than 2^32 slots",
              **{"spec.storage.size": "200Gi"}),
    bad_table({"messages": 5000, "retain": 1.0}, ".retain", "1.0 is out of bounds"),
    bad_table({"slots": 1023}, ".slots", "1023 is out of bounds; allowed: 1024 to 4294967296"),
    bad_table({"slots": "5000"}, ".slots", "'5000' is not a whole number"),
    bad_table({"memory": "1Ki"}, ".memory", "'1Ki' must be from 64Ki to 96Gi"),
    bad_table({"slots": 10**9}, "spec.storage.size", "at least 1.25 times the size of spec.store.inverseBloom"),
    bad_table({"memory": "18Gi"}, "spec.storage.size", "'20Gi' (the default) must be at least"),
    bad_table({"messages": 10**8, "retain": 0.9}, "spec.storage.size", "or the volume would run full"),
    bad_table({"messages": 4 * 10**9, "retain": 0.1}, "spec.storage.size", "at least 1.25 times the size of"),
    bad_table({"slots": 600_000_000}, "spec.storage.size", "at least 1.25 times the size of", **DUPLICATES),
    bad_table({"slots": 550_000_000}, "spec.storage.size", "at least 1.25 times the size of", **CONFLICTS),
    bad_table({"messages": 10**9, "retain": 0.5}, "spec.storage.size", "at least 1.25", **CONFLICTS,
              **{"spec.storage.size": "50Gi"}),
    bad_table(
        {"slots": 600_000_000}, "spec.snapshots", "at least 2.25 times the size of",
        **{"spec.snapshots.provider": "CSI"},
    ),
    bad_table(
        {"slots": 350_000_000}, "spec.snapshots", "at least 2.25 times the size of",
        **{"spec.snapshots.provider": "CSI"}, **DUPLICATES,
    ),
    bad_table(
        {"slots": 6_000_000}, "spec.worker.resources", "must have limits.memory at least 96Mi above",
        **{"spec.worker.resources": {"limits": {"memory": "256Mi"}}}, **DUPLICATES,
    ),
    bad_table(
        {"memory": "161Mi"}, "spec.worker.resources", "must have limits.memory at least 96Mi above",
        **{"spec.worker.resources": {"limits": {"memory": "256Mi"}}},
    ),
]  # fmt: skip
ALL_AT_ONCE = BadManifest(
    {
        "spec.kafak": {},
        "spec.output.topic": "orders",
        "spec.id": {"from": "Header"},
        "spec.store.window": {"maxBytes": "1Ki", "maxAge": "1h"},
        "spec.storage.size": "8Gb",
        "spec.suspend": "no",
    },
    [
        ("spec.kafak", "did you mean spec.kafka?"),
        ("spec.output.topic", "must differ from the topics of spec.input"),
        ("spec.id.name", "must name the header"),
        ("spec.store.window.maxBytes", "must be from 16Mi"),
        ("spec.store.window.alertBelow", "must be shorter than"),
        ("spec.storage.size", "is not a size"),
        ("spec.suspend", "is not true or false"),
    ],
    "all at once",
    # Unknown fields are refused ahead of all else.
    server='unknown field "spec.kafak"',
)
BAD_MANIFESTS = [
    *TYPOS,
    *MISSING,
    *TYPES,
    *SIZES,
    *DURATIONS,
    *NUMBERS,
    *TEXTS,
    *SNAPSHOTS,
    *RELATIONS,
    *ROUTES,
    *TABLES,
    *INPUTS,
    *REPARTITIONS,
    *OWN_NAMES,
    ALL_AT_ONCE,
]

GOOD_CHANGES: list[dict[str, Any]] = [
    {},
    {"metadata.name": "a" * 46},
    {"spec.input.topic": "...", "spec.output.topic": "A_z.9-"},
    {"spec.kafka.bootstrapServers": "10.0.0.1:9092,[::1]:65535,kafka_1.shop.svc:1"},
    {"spec.id": {"from": "Header", "name": "Message-Id"}},
    {"spec.id": {"from": "JsonPath", "path": "$['order']['id']"}},
    {"spec.id": {"from": "JsonPath", "path": "$ .order-id[ 'it\\'s' ][-1]"}},
    {"spec.id": {"from": "Content"}},
    {"spec.duplicates": {"policy": "Topic", "topic": "orders-again"}},
    {
        "spec.duplicates": {"policy": "Topic", "topic": "orders-odd"},
        "spec.conflicts": {"policy": "Topic", "topic": "orders-odd"},
        "spec.late": {"policy": "Topic", "topic": "orders-odd", "maxAge": "7d"},
    },
    {
        "spec.input.topic": "o" * 242 + "-filter",
        "spec.output.topic": "o" * 242,
        "spec.duplicates": {"policy": "Topic", "topic": "others"},
        "spec.conflicts": {"policy": "Topic", "topic": "others"},
    },
    {"spec.input.topic": "clean-filters", "spec.output.topic": "clean", **DUPLICATES},
    {
        "spec.input.topic": "clean-owners",
        "spec.output": {"topic": "clean", "filter": {"from": "Header", "name": "country"}},
    },
    {"spec.delivery": "AtLeastOnce"},
    {"spec.store.window.maxAge": "4w", "spec.store.window.alertBelow": "1w1d"},
    {"spec.store.window.maxAge": "521w"},
    {"spec.repartition": {"partitions": 4}},
    {
        "spec.input": {"topics": ["orders", "returns"]},
        "spec.repartition": {"partitions": 1, "by": "Key"},
    },
    {
        "spec.input": {"pattern": "(orders|returns)-[a-z]{2}.*"},
        "spec.repartition": {
            "partitions": 6,
            "topic": {"name": "between", "maxBytes": "10Gi"},
            "routers": {"replicas": 3, "resources": {"limits": {"cpu": 1}}},
        },
    },
    {"spec.output.filter": {"from": "Header", "name": "country", "sizeBytes": 255}},
    {"spec.output.filter": {"from": "JsonPath", "path": "$.order.country"}},
    {"spec.store.window.maxBytes": 16 * 1024**2, "spec.storage.size": "20Mi"},
    {"spec.store.window.maxBytes": "1.5Gi", "spec.storage.size": 2 * 1024**3},
    {"spec.store.window": {"maxAge": "1d12h", "alertBelow": "0s", "generations": 16}},
    {"spec.store.window.maxBytes": "16Gi", "spec.storage.size": "20Gi"},
    {"spec.snapshots": {"provider": "EBS", "schedule": "5 0,12 1-7 JAN-DEC MON#1"}},
    {"spec.snapshots": {"provider": "EBS", "schedule": "@hourly", "keep": 1000}},
    {"spec.snapshots": {"provider": "CSI", "csi": {"volumeSnapshotClassName": "gp3"}}},
    {"spec.snapshots": {"provider": "EBS", "keepFor": "1m", "deadline": "7d"}},
    {"spec.snapshots": {"provider": "EBS", "ebs": {"region": "eu-west-1", "tags": {"team": "a"}}}},
    {"spec.snapshots": {"provider": "S3", "s3": {"bucket": "backups"}}},
    {
        "spec.snapshots": {
            "provider": "S3",
            "s3": {
                "bucket": "my.backups-1",
                "prefix": "dedupe/v1",
                "region": "eu-west-1",
                "endpoint": "http://minio.storage.svc:9000",
                "credentialsSecretRef": {"name": "orders-bucket"},
                "encryption": "KMS",
                "kmsKeyId": "arn:aws:kms:eu-west-1:1:key/a",
                "bandwidth": "64Ki",
            },
        }
    },
    {"spec.snapshots.provider": "CSI", "spec.storage.size": "18Gi"},
    {"spec.store": {"type": "InverseBloom", "inverseBloom": {"slots": 1024}}},
    {"spec.store": {"type": "InverseBloom", "inverseBloom": {"slots": 700_000_000}}},
    {"spec.store": {"type": "InverseBloom", "inverseBloom": {"slots": 550_000_000}}, **DUPLICATES},
    {"spec.store": {"type": "InverseBloom", "inverseBloom": {"slots": 500_000_000}}, **CONFLICTS},
    {
        "spec.store": {"type": "InverseBloom", "inverseBloom": {"memory": "16Gi"}},
        **DUPLICATES,
        **CONFLICTS,
    },
    {
        "spec.store": {"type": "InverseBloom", "inverseBloom": {"memory": "160Mi"}},
        "spec.worker.resources.limits": {"memory": "256Mi", "cpu": 2},
    },
    {
        "spec.store": {"type": "InverseBloom", "inverseBloom": {"memory": "1Gi"}},
        "spec.storage.size": "1.25Gi",
    },
    {
        "spec.store": {
            "type": "InverseBloom",
            "inverseBloom": {"messages": 3_600_000, "retain": 0.9},
        },
        "spec.snapshots.provider": "CSI",
        "spec.storage.size": "2Gi",
    },
    {"spec.worker.resources": {"limits": {"cpu": 2, "memory": "1.5Gi"}}},
    {"spec.worker.tuning": {"commitInterval": "30s", "maxTransactionRecords": 10_000}},
    {
        "spec.worker": {
            "imagePullSecrets": [{"name": "mirror"}],
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
            "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}],
            "priorityClassName": "high",
            "labels": {"team": "shop"},
            "annotations": {"example.com/note": "a"},
            "env": [{"name": "TZ", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}],
            "volumeMounts": [{"name": "scratch", "mountPath": "/etc/dedupe/.cache"}],
            "sidecars": [{"name": "logs", "image": "logs:1", "ports": [{"containerPort": 9000}]}],
        }
    },
]
