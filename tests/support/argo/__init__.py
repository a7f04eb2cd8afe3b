"""The schema of Argo's CronWorkflow, of a release of Argo Workflows."""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft7Validator

PATH: Final = Path(__file__).with_name("cronworkflow.json.gz")


def errors(wanted: Mapping[str, Any]) -> list[str]:
    """Return why the API server would refuse a CronWorkflow; an unknown field is an error."""
    found = _validator().iter_errors(dict(wanted))
    return [f"{each.json_path}: {each.message}" for each in found]


@cache
def _validator() -> Draft7Validator:
    return Draft7Validator(json.loads(gzip.decompress(PATH.read_bytes()))["schema"])
