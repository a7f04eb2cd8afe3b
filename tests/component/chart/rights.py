"""The table of rights in docs/kubernetes.md, and the rules of roles in the same form."""

from typing import Any

from tests.support.tables import rows

Rights = dict[tuple[str, str], set[str]]
"""Verbs by API group and resource."""


def documented(*places: str) -> Rights:
    """The rights that the table has for some of the places: streams, release, cluster, failover, EBS."""
    table: Rights = {}
    for group, resources, verbs, where, _ in rows("kubernetes.md", "Rights"):
        if where in places:
            for resource in resources.split(", "):
                key = ("" if group == "core" else group.strip("`"), resource.strip("`"))
                table.setdefault(key, set()).update(verbs.split(", "))
    return table


def granted(*roles: dict[str, Any]) -> Rights:
    """The rights that the rules of some roles give."""
    table: Rights = {}
    for rule in (rule for role in roles for rule in role["rules"]):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                table.setdefault((group, resource), set()).update(rule["verbs"])
    return table
