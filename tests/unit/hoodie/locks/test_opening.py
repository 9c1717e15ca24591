"""Opening a lock: what is not installed."""

import sys

import pytest

from hoodie import errors
from support.contracts import lock_process
from support.contracts.installed_lock import installed

__all__ = ["installed"]


@pytest.mark.parametrize(
    ("address", "extra", "package"),
    [
        ("dynamodb://us-east-1/locks", "dynamodb", "boto3"),
        ("hive://host:9083/lake/trips", "hive", "thriftpy2.rpc"),
    ],
)
def test_extra_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, address: str, extra: str, package: str
) -> None:
    """T-L19."""
    monkeypatch.delitem(sys.modules, f"hoodie.transaction.locks.{extra}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(errors.ConfigurationError, match=rf"needs hudi-operator\[{extra}\]"):
        lock_process.open_lock(address, "memory://table", "we")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nowhere", "0 installed distributions have a lock provider 'nowhere': .* broken, flock$"),
        ("broken", "'broken' cannot be loaded from flock_locks:nothing"),
    ],
)
def test_provider_that_is_not_installed_is_named(installed: str, name: str, complaint: str) -> None:
    assert installed
    with pytest.raises(errors.ConfigurationError, match=complaint):
        lock_process.open_lock(f"custom://{name}", "memory://table", "we")
