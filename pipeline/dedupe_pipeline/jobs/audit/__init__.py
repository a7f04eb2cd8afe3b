"""An independent judgement: does the clean topic hold each message of the raw one exactly once?"""

from dedupe_pipeline.jobs.audit.job import audit
from dedupe_pipeline.jobs.audit.result import AuditResult

__all__ = ["AuditResult", "audit"]
