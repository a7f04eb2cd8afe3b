"""Check a file of manifests: each DedupeStream and DedupeSnapshot in it.

`dedupe validate` calls it. Commands that run a stream take the only one of a file by `load_manifest`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dedupe_crds.manifest import ManifestError, parse_manifest, parse_object, read_yaml, title
from dedupe_crds.spec.stream import GROUP, KIND, DedupeStream
from dedupe_crds.status.snapshot import KIND as SNAPSHOT_KIND
from dedupe_crds.status.snapshot import DedupeSnapshot


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The valid objects of a file in order, and the titles of the others."""

    objects: tuple[DedupeStream | DedupeSnapshot, ...]
    others: tuple[str, ...]


def check_file(path: Path) -> Checked:
    """Check the documents of a YAML file.

    Raises:
        ManifestError: the file cannot be read or has neither kind, objects are not valid, or two of a kind have the
            same name; it names all problems.
    """
    source, documents = str(path), read_yaml(path)
    objects: list[DedupeStream | DedupeSnapshot] = []
    others: list[str] = []
    problems: list[str] = []
    for document in documents:
        alone = len(documents) == 1
        if not (alone or _is_ours(document)):
            others.append(title(document))
            continue
        try:
            objects.append(_parse(document, source))
        except ManifestError as error:
            where = "" if alone else f"{title(document)}: "
            problems += [f"{where}{problem}" for problem in error.problems]
    problems += _repeated(objects)
    if not objects and not problems:
        found = ", ".join(others) or "nothing"
        problems.append(f"needs a {KIND} or a {SNAPSHOT_KIND}; found: {found}")
    if problems:
        raise ManifestError(source, problems)
    return Checked(objects=tuple(objects), others=tuple(others))


def _repeated(objects: Iterable[DedupeStream | DedupeSnapshot]) -> list[str]:
    """Return a problem for each name that objects of one kind share."""
    names = Counter((each.kind, each.metadata.namespace, each.metadata.name) for each in objects)
    return [
        f"{kind} {namespace}/{name}: stands {count} times in the file, and each would replace the one before: "
        "rename all but one, or remove them"
        for (kind, namespace, name), count in names.items()
        if count > 1
    ]


def _is_ours(document: object) -> bool:
    """Return whether to check it: also without a kind, or with a mistyped one."""
    if not isinstance(document, Mapping) or "kind" not in document:
        return True
    version = str(document.get("apiVersion", ""))
    return document["kind"] in {KIND, SNAPSHOT_KIND} or version.startswith(f"{GROUP}/")


def _parse(document: object, source: str) -> DedupeStream | DedupeSnapshot:
    if not isinstance(document, Mapping) or document.get("kind") != SNAPSHOT_KIND:
        return parse_manifest(document, source)
    written = {name: value for name, value in document.items() if name != "status"}
    return parse_object(written, source, DedupeSnapshot, SNAPSHOT_KIND)
