"""The seed of all traffic and all random kills in a run; FAULT_SEED overrides it."""

import os

SEED = int(os.environ.get("FAULT_SEED", "20261121"))
