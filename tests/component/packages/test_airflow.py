"""The example of a DAG is read by Airflow, whose operators decide by the exit codes of the jobs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("apache-airflow-core==3.3.2", "apache-airflow-providers-standard==1.21.0")

PROGRAM = """
import os, runpy, sys
from airflow.serialization.serialized_objects import DagSerialization
found = runpy.run_path(sys.argv[1])
dag = found["audit"].dag
DagSerialization.to_dict(dag)
print("dag", dag.dag_id, *(task.task_id for task in dag.topological_sort()))
for code in (0, 1, 2, 3, 4, 143):
    os.environ["CODE"] = str(code)
    try:
        found["audit"].execute({})
        print("code", code, "well")
    except Exception as error:
        print("code", code, type(error).__name__)
"""


@pytest.mark.matrix
def test_airflow_reads_the_dag_and_the_exit_codes(tmp_path: Path) -> None:
    uv, environment = Path(sys.executable).with_name("uv"), tmp_path / "environment"
    python = environment / "bin/python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *PACKAGES], check=True)
    job = tmp_path / "dedupe-pipeline"
    job.write_text('#!/bin/sh\nexit "$CODE"\n')
    job.chmod(0o755)

    done = subprocess.run(
        [python, "-c", PROGRAM, ROOT / "examples/scheduling/airflow_dag.py"],
        env={
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert [line for line in done.stdout.splitlines() if line.startswith(("dag ", "code "))] == [
        "dag orders_lake land audit",
        "code 0 well",
        "code 1 AirflowFailException",
        "code 2 AirflowFailException",
        "code 3 AirflowException",
        "code 4 AirflowSkipException",
        "code 143 AirflowException",
    ], done.stderr
