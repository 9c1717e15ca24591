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
