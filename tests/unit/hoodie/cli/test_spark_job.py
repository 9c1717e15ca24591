"""What a job failed with is what the command fails with."""

import pytest

from hoodie import errors
from hoodie.cli import failures, spark_job
from hoodie.contract import job_results


def test_result_of_a_job_that_succeeded_is_returned() -> None:
    result = job_results.JobResult(attempt=1, records=3)
    assert spark_job.checked(result) == result


@pytest.mark.parametrize("kind", ["NotFound", "LockTimeout", "Conflict", "Internal"])
def test_error_of_a_job_keeps_its_class(kind: str) -> None:
    result = job_results.JobResult(
        attempt=1, error=job_results.JobError(kind=kind, message="it failed")
    )
    with pytest.raises(errors.HoodieError, match="it failed") as raised:
        spark_job.checked(result)
    assert failures.of(raised.value).exit_code == errors.EXIT_CODES[kind]


def test_error_of_an_unknown_class_is_a_bug() -> None:
    result = job_results.JobResult(
        attempt=1, error=job_results.JobError(kind="New", message="it failed")
    )
    with pytest.raises(errors.HoodieError) as raised:
        spark_job.checked(result)
    assert failures.of(raised.value).exit_code == errors.EXIT_INTERNAL
