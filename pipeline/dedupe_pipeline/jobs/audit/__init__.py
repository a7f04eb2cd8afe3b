"""Job `audit`: an independent check that each raw message is output exactly once."""

from dedupe_pipeline.jobs.audit.job import audit
from dedupe_pipeline.jobs.audit.result import AuditResult

__all__ = ["AuditResult", "audit"]
