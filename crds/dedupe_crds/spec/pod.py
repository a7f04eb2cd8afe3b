"""Models of the settings of pods of workers and routers.

`dedupe_crds.spec.worker` uses it, and the operator for the defaults of all streams. A part that Kubernetes defines,
such as an affinity, is taken as it is: the API server checks it when the pods' StatefulSet is applied.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from dedupe_crds.base import Model
from dedupe_crds.names import ObjectName
from dedupe_crds.rules import FieldRule, matching

_MOST: Final = 32
_OWN_PREFIXES: Final = ("dedupestream.io/", "app.kubernetes.io/", "apps.kubernetes.io/")
_OWN_VOLUMES: Final = ("state", "config", "admin", "kafka", "s3", "tmp")
_OWN_CONTAINERS: Final = ("worker", "router")
_OWN_PATHS: Final = (
    "/var/lib/dedupestream/",
    "/etc/dedupestream/",
    "/opt/dedupestream/",
    "/tmp/",  # noqa: S108 # the container's own
)

KubernetesObject = dict[str, Any]


def _listed(names: Sequence[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


def _not_named(names: Sequence[str]) -> FieldRule:
    return FieldRule(
        cel=f"!(self in {_listed(names)})",
        message=f"is a name of the operator's own: {', '.join(names)}",
        holds=lambda name: name not in names,
    )


_NO_OWN_KEYS: Final = FieldRule(
    cel=f"self.all(key, !{_listed(_OWN_PREFIXES)}.exists(own, key.startsWith(own)))",
    message=f"must not have keys of the operator's own, which begin with {', '.join(_OWN_PREFIXES)}",
    holds=lambda texts: not any(key.startswith(_OWN_PREFIXES) for key in texts),
)
_NO_OWN_VARIABLE: Final = FieldRule(
    cel="!self.startsWith('DEDUPE_') && self != 'AWS_SHARED_CREDENTIALS_FILE'",
    message="is a variable of the operator's own: DEDUPE_… or AWS_SHARED_CREDENTIALS_FILE",
    holds=lambda name: not name.startswith("DEDUPE_") and name != "AWS_SHARED_CREDENTIALS_FILE",
)
_NO_OWN_PATH: Final = FieldRule(
    cel=f"!{_listed(_OWN_PATHS)}.exists(own, (self + '/').startsWith(own) || own.startsWith(self + '/'))",
    message=f"must not cover a path of the worker's own: {', '.join(_OWN_PATHS)}",
    holds=lambda path: (
        not any(f"{path}/".startswith(own) or own.startswith(f"{path}/") for own in _OWN_PATHS)
    ),
)
_NAMED_ONCE: Final = FieldRule(
    cel="self.all(one, self.exists_one(other, other.name == one.name))",
    message="must have each name once",
    holds=lambda items: len({each.name for each in items}) == len(items),
    write=lambda items: str([each.name for each in items]),
)

Texts = Annotated[dict[str, str], Field(max_length=_MOST), _NO_OWN_KEYS]
PartName = Annotated[
    str,
    Field(min_length=1, max_length=63),
    matching(
        "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
        "must be lower-case letters, digits and '-', as a DNS label",
    ),
]


class _Part(Model):
    """A part that Kubernetes defines, of which only some fields are read here."""

    model_config = ConfigDict(extra="allow")


class Variable(_Part):
    """An environment variable, as in a container: value, or valueFrom."""

    name: Annotated[str, Field(min_length=1, max_length=253), _NO_OWN_VARIABLE] = Field(
        description="Name of the variable."
    )


class Volume(_Part):
    """A volume, as in a pod: emptyDir, secret, configMap and so on."""

    name: Annotated[PartName, _not_named(_OWN_VOLUMES)] = Field(description="Name of the volume.")


class VolumeMount(_Part):
    """A mount of a volume in the container, as in a container."""

    name: PartName = Field(description="Name of the volume.")
    mount_path: Annotated[
        str,
        Field(min_length=2, max_length=512),
        matching(
            r"(/[a-zA-Z0-9_.-]*[a-zA-Z0-9_-][a-zA-Z0-9_.-]*)+",
            "must be an absolute path without '.', '..' and a '/' at the end",
        ),
        _NO_OWN_PATH,
    ] = Field(description="Path in the container.")


class Sidecar(_Part):
    """A further container, as in a pod."""

    name: Annotated[PartName, _not_named(_OWN_CONTAINERS)] = Field(
        description="Name of the container."
    )


class SecretName(Model):
    """A Secret of the stream's namespace."""

    name: ObjectName = Field(description="Name of the Secret.")


class PodShape(Model):
    """Settings of pods: where they run, and what is added to them."""

    image_pull_secrets: Annotated[list[SecretName], Field(max_length=_MOST), _NAMED_ONCE] = Field(
        default=[],
        description="Secrets of the namespace with which images are pulled. They are set in the ServiceAccount, so a "
        "change restarts no worker.",
    )
    node_selector: Annotated[dict[str, str], Field(max_length=_MOST)] = Field(
        default={}, description="Labels of the nodes that pods may run on."
    )
    tolerations: Annotated[list[KubernetesObject], Field(max_length=_MOST)] = Field(
        default=[], description="Taints of nodes that pods tolerate."
    )
    affinity: KubernetesObject = Field(
        default={}, description="Affinity of pods to nodes and to other pods."
    )
    topology_spread_constraints: Annotated[list[KubernetesObject], Field(max_length=_MOST)] = Field(
        default=[],
        description="Spread of the pods, instead of the default: over zones and nodes, if possible. Without a "
        "labelSelector it is that of the workers, or routers, of the stream.",
    )
    priority_class_name: ObjectName | None = Field(
        default=None, description="PriorityClass of the pods."
    )
    labels: Texts = Field(default={}, description="Further labels of the pods.")
    annotations: Texts = Field(default={}, description="Further annotations of the pods.")
    env: Annotated[list[Variable], Field(max_length=_MOST), _NAMED_ONCE] = Field(
        default=[], description="Further environment variables of the container."
    )
    volumes: Annotated[list[Volume], Field(max_length=_MOST), _NAMED_ONCE] = Field(
        default=[], description="Further volumes of the pods."
    )
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=_MOST)] = Field(
        default=[], description="Further mounts of the container."
    )
    sidecars: Annotated[list[Sidecar], Field(max_length=8), _NAMED_ONCE] = Field(
        default=[], description="Further containers of the pods."
    )
