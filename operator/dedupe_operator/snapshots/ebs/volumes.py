"""Read id, file system and zone of an EBS volume from its PersistentVolume.

The EBS provider and `restore` call it.
"""

from typing import Final

from dedupe_operator.kubernetes.names import ZONE, Object

DRIVER: Final = "ebs.csi.aws.com"
IN_TREE: Final = "kubernetes.io/aws-ebs"
DRIVER_ZONE: Final = "topology.ebs.csi.aws.com/zone"
_ZONE_LABELS: Final = (DRIVER_ZONE, ZONE, "failure-domain.beta.kubernetes.io/zone")


def volume_id(volume: Object) -> str | None:
    """Return EC2's id of the volume, None if it is not an EBS volume.

    >>> volume_id({"spec": {"awsElasticBlockStore": {"volumeID": "aws://eu-central-1a/vol-1"}}})
    'vol-1'
    """
    spec = volume["spec"]
    if spec.get("csi", {}).get("driver") == DRIVER:
        return str(spec["csi"]["volumeHandle"])
    if in_tree := spec.get("awsElasticBlockStore"):
        return str(in_tree["volumeID"]).rsplit("/", 1)[-1]
    return None


def file_system(volume: Object) -> str | None:
    """Return the type of its file system, None for the driver's default."""
    spec = volume["spec"]
    source = spec.get("csi") or spec.get("awsElasticBlockStore") or {}
    return source.get("fsType") or None


def zone(volume: Object) -> str | None:
    """Return the availability zone it can be attached in, None if unknown."""
    required = volume["spec"].get("nodeAffinity", {}).get("required", {})
    for term in required.get("nodeSelectorTerms", []):
        for expression in term.get("matchExpressions", []):
            if expression["key"] in _ZONE_LABELS and expression.get("values"):
                return str(expression["values"][0])
    return zone_label(volume)


def zone_label(labelled: Object) -> str | None:
    """Return the zone in the labels of a volume or node."""
    labels = labelled["metadata"].get("labels") or {}
    return next((labels[name] for name in _ZONE_LABELS if labels.get(name)), None)
