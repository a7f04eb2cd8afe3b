"""Print the bill of materials of an image's Python packages, from the lock, as CycloneDX JSON.

It lists each package that the image installs, with its version, its hashes, and the packages that it requires. The
same lock gives the same bytes. The Dockerfile runs `python -m images.sbom DIRECTORY EXTRA`, and each image has the
result in /opt/dedupestream/sbom.cdx.json. Debian's packages are not in it: scanners read those from dpkg's database.
"""

import json
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    XsUri,
)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

from images import locked

_REQUIREMENT = re.compile(r"^\S.*(?:\n .*)*", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]+)")


def sbom(directory: Path, extra: str) -> str:
    """Return the bill of materials of the image with an extra. Raises LookupError like `locked`."""
    pyproject = tomllib.loads((directory / "pyproject.toml").read_text())
    wanted = locked.packages(directory, extra)
    components = {
        name: component
        for name, package in wanted.items()
        if (component := _installed(package.text)) is not None
    }
    root = Component(
        type=ComponentType.APPLICATION,
        name=f"{pyproject['project']['name']}-{extra}",
        version=pyproject["project"]["version"],
        bom_ref="image",
    )
    bom = Bom(components=components.values())
    bom.metadata.component = root
    bom.register_dependency(
        root, [components[name] for name in locked.direct(pyproject, extra) & components.keys()]
    )
    for name, component in components.items():
        for parent in wanted[name].required_by & components.keys():
            bom.register_dependency(components[parent], [component])
    return _reproducible(bom)


def _installed(lines: str) -> Component | None:
    """Return the version that this system installs; markers may exclude some, or all."""
    for line in _REQUIREMENT.findall(lines):
        requirement = Requirement(line.partition("\\")[0])
        if requirement.marker is None or requirement.marker.evaluate():
            return _component(requirement, _HASH.findall(line))
    return None


def _component(requirement: Requirement, hashes: Sequence[str]) -> Component:
    name, version = requirement.name, str(requirement.specifier).removeprefix("==")
    purl = PackageURL("pypi", name=name, version=version)
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(f"https://pypi.org/project/{name}/{version}/"),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=found) for found in hashes],
    )
    return Component(
        name=name, version=version, purl=purl, bom_ref=str(purl), external_references=[files]
    )


def _reproducible(bom: Bom) -> str:
    """Return the JSON without the time, and with a serial number of its content."""
    content = json.loads(JsonV1Dot6(bom).output_as_string())
    del content["serialNumber"], content["metadata"]["timestamp"]
    serial = uuid5(NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return json.dumps({**content, "serialNumber": serial.urn}, indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(sbom(Path(sys.argv[1]), sys.argv[2]))
