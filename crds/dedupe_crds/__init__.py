"""The typed manifests: source of all schemas, and contracts between the parts."""
