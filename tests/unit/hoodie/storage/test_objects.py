"""What failures of an object store mean."""

import obstore
import pytest
from obstore import exceptions

from hoodie import errors
from hoodie.storage.objects import ObjectStorage


@pytest.mark.parametrize(
    ("failure", "meaning"),
    [
        (exceptions.GenericError("operation timed out"), errors.UnansweredError),
        (OSError("connection reset"), errors.UnansweredError),
        (exceptions.PermissionDeniedError("no"), errors.StorageError),
        (exceptions.UnauthenticatedError("who"), errors.StorageError),
        (exceptions.PreconditionError("changed"), errors.ConflictError),
        (exceptions.AlreadyExistsError("taken"), errors.AlreadyExistsError),
    ],
)
def test_failure_tells_whether_the_call_may_take_effect_yet(
    failure: Exception, meaning: type[errors.HoodieError]
) -> None:
    storage = ObjectStorage("s3://bucket", obstore.store.MemoryStore())
    found = storage.upload_error("a/file", failure)
    assert type(found) is meaning
    assert str(found).startswith("cannot write s3://bucket/a/file: ")


@pytest.mark.parametrize(
    ("failure", "remedy"),
    [
        (
            (
                "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token - "
                "403 Forbidden"
            ),
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, ",
        ),
        (
            (
                "Generic GCS error: Error performing token request: Error performing GET "
                "http://169.254.169.254/computeMetadata/v1/instance - 403 Forbidden"
            ),
            "set GOOGLE_APPLICATION_CREDENTIALS to the file",
        ),
        (
            (
                "Generic MicrosoftAzure error: Error performing token request: Error performing "
                "GET http://169.254.169.254/metadata/identity - 403"
            ),
            "set AZURE_STORAGE_ACCOUNT_KEY, or ",
        ),
        (
            (
                "Generic S3 error: Error performing GET http://localhost/b - HTTP error: builder "
                "error"
            ),
            "set AWS_ALLOW_HTTP=true; Python takes storage_options",
        ),
    ],
)
def test_what_a_store_lacks_is_named_by_its_variables(failure: str, remedy: str) -> None:
    storage = ObjectStorage("s3://bucket", obstore.store.MemoryStore())
    found = str(storage.upload_error("a/file", exceptions.GenericError(failure)))
    assert remedy in found
    assert failure in found


def test_other_failures_are_shown_as_they_are() -> None:
    storage = ObjectStorage("s3://bucket", obstore.store.MemoryStore())
    found = storage.upload_error("f", exceptions.GenericError("Generic S3 error: 503 Slow Down"))
    assert str(found) == "cannot write s3://bucket/f: Generic S3 error: 503 Slow Down"
