# ruff: noqa: INP001 (Airflow loads the file by its path)
"""Jobs of one stream by Airflow: land the output topic every hour, then audit it.

Copy the file to the folder of DAGs: see docs/scheduling.md. It needs Airflow 3 with its standard provider, and
`dedupe-pipeline` on the workers' PATH.
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

STREAM = "/etc/dedupestream/orders.yaml"
LAKE = "/data/orders"


class DedupeJob(BashOperator):  # type: ignore[misc] # Airflow is not installed here
    """Run a job. If the task is killed, the job gets SIGTERM and ends cleanly."""

    def execute(self, context: Context) -> None:
        """Run it once, and decide by its exit code if Airflow tries again."""
        code = self.subprocess_hook.run_command(
            command=["bash", "-c", f"exec {self.bash_command}"], env=self.get_env(context)
        ).exit_code
        if code == 4:
            raise AirflowSkipException("there was nothing to judge")
        if code == 1:
            raise AirflowFailException("the audit found defects: see docs/audit.md#verdicts")
        if code == 2:
            raise AirflowFailException("an option, the manifest or a file is wrong")
        if code:  # 3 it could not run or finish; 130, 143 it was stopped
            raise AirflowException(f"exit code {code}: the next try continues")


with DAG(
    "orders_lake",
    schedule="7 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,  # a run lands all that is there, so missed runs need no other
    max_active_runs=1,  # the output has one writer
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
):
    land = DedupeJob(
        task_id="land",
        bash_command=f"dedupe-pipeline land {STREAM} --output {LAKE}",
    )
    audit = DedupeJob(
        task_id="audit",
        bash_command=f"dedupe-pipeline audit {STREAM} --up-to-committed --last 2h",
    )
    land >> audit
