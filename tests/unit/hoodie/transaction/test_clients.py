"""What a client is made of."""

from hoodie import environment
from hoodie.transaction import client


def test_environment_is_what_a_client_is_given() -> None:
    """The protocol says what of it a transaction uses; mypy compares them here."""
    surroundings: client.Surroundings = environment.system(parallelism=1)
    assert surroundings.process.pid > 0
