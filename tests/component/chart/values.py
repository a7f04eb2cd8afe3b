"""Values of the chart that tests render it with: the defaults, and what turns every part of it on."""

from typing import Any

MONITORED = {
    "metrics": {
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "grafanaDashboard": {"enabled": True},
    }
}
BY_SERVICES = {"metrics": {"serviceMonitor": {"enabled": True}}}
POD = {
    "imagePullSecrets": [{"name": "mirror"}],
    "nodeSelector": {"disk": "fast"},
    "env": [{"name": "TZ", "value": "UTC"}],
}
VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "monitored": MONITORED,
    "monitored by services": BY_SERVICES,
    "two replicas in two namespaces": {
        "replicas": 2,
        "watch": {"namespaces": ["shop", "bank"]},
    },
    "in one namespace": {"rbac": {"clusterScope": False}, "networkPolicy": {"enabled": True}},
    "everything set": MONITORED
    | {
        "replicas": 3,
        "fullnameOverride": "clean",
        "image": {"repository": "mirror.example/operator", "digest": f"sha256:{'a' * 64}"},
        "worker": {
            "image": {"repository": "mirror.example/worker", "tag": "2.0"},
            "pod": POD,
        },
        "imagePullSecrets": [{"name": "mirror"}],
        "extraArgs": ["--worker-probe-port=8081"],
        "log": {"level": "debug", "format": "text"},
        "crds": {"annotations": {"team": "data"}},
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/a"}},
        "snapshots": {"ebs": {"enabled": True}},
        "failover": {"enabled": False},
        "networkPolicy": {
            "enabled": True,
            "namespaces": ["shop"],
            "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            "apiServerCIDRs": ["10.0.0.1/32"],
        },
        "priorityClassName": "high",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "podAnnotations": {"note": "a"},
        "podLabels": {"team": "data"},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
    },
}
