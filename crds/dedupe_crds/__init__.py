"""The typed manifests: the single source of every schema, and the contracts between the parts."""
