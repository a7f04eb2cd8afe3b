"""The `dedupe` command: a stream without Kubernetes, a process per partition."""
