"""Addresses as Apache Hudi's options: what a writer there is given means the same lock here."""

import pytest

from hoodie import errors
from hoodie.transaction.locks import address_texts, addresses, hudi_options


@pytest.mark.parametrize(
    "text",
    [
        "in-process",
        "filesystem",
        "filesystem?directory=/locks/orders&expiry-s=120",
        "storage",
        "storage?validity-s=100&renew-interval-s=10",
        "zookeeper://a:2181,b:2182/hudi/lake/orders",
        "zookeeper://a:2181/hudi/orders?session-timeout-s=30&connection-timeout-s=5",
        "zookeeper-implicit://a:2181",
        "dynamodb://eu-west-1/locks/orders",
        "dynamodb://eu-west-1/locks",
        "dynamodb://eu-west-1/locks/orders?endpoint=http://127.0.0.1:8000&lease-s=30",
        "hive://meta:9083,other:9083/lake/orders",
        "hive://meta:9083/lake/orders?heartbeat-s=20",
    ],
)
def test_options_of_an_address_mean_that_address(text: str) -> None:
    address = address_texts.parse(text)
    assert hudi_options.from_options(hudi_options.to_options(address)) == address


def test_lock_of_ones_own_is_none_of_apache_hudi() -> None:
    with pytest.raises(errors.UnsupportedError, match="custom://mine"):
        hudi_options.to_options(addresses.CustomAddress(name="mine", text="x"))
