"""Job `audit`: an independent check that each raw message is output exactly once."""

from dedupe_pipeline.jobs.audit.job import audit
from dedupe_pipeline.jobs.audit.result import AuditResult, Outcome

__all__ = ["AuditResult", "Outcome", "audit"]
