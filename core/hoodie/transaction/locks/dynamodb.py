"""The lease of a DynamoDB lock: an item of a table, as Amazon's lock client for Java has it.

Apache Hudi's `DynamoDBBasedLockProvider` locks by that client. The table's partition key is `key`,
a text; an item has, beside it, texts all of them:

    ownerName            who has it
    leaseDuration        ms that it holds without being renewed
    recordVersionNumber  a UUID, another one with each write
    isReleased           "1" where the holder gave it back; a JVM's client deletes the item instead

and of ours `fencingToken`, a number. A write of a JVM's client drops it; the token is then greater
than the clock's milliseconds, so that it grows even so.

- A lease is over when its version stayed the same for its duration, by the clock of who watches:
  the writers' clocks may differ. Who waits less than that tries again, and has watched meanwhile.
- A table that is not there is made, as Apache Hudi makes it.

Credentials are those of the environment, as Amazon's tools read it.

Source: `com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient`,
`org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProviderBase`.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import boto3
import botocore.config
import botocore.exceptions

from hoodie import clock, errors, identity
from hoodie.transaction.locks import leases
from hoodie.transaction.locks.addresses import DynamoDbAddress
from hoodie.transaction.locks.leases import Seen
from hoodie.transaction.locks.protocol import LockOwner

_KEY = "key"
_RENEWALS_PER_LEASE = 3
_TABLE_POLL_S = 0.25
_TABLE_WAIT_S = 120.0
_CLIENT_CONFIG = botocore.config.Config(
    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 3}
)
_KINDS: Mapping[str, type[errors.HoodieError]] = {
    "AccessDeniedException": errors.ConfigurationError,
    "ConditionalCheckFailedException": errors.ConflictError,
    "ExpiredTokenException": errors.ConfigurationError,
    "InvalidSignatureException": errors.ConfigurationError,
    "MissingAuthenticationTokenException": errors.ConfigurationError,
    "ResourceInUseException": errors.AlreadyExistsError,
    "ResourceNotFoundException": errors.NotFoundError,
    "UnrecognizedClientException": errors.ConfigurationError,
    "ValidationException": errors.ConfigurationError,
}
_MISSING_SETTINGS = (
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.NoRegionError,
    botocore.exceptions.PartialCredentialsError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """A lease of somebody, and since when it has this version by our monotonic clock."""

    version: str
    since_s: float
    lease_s: float


class DynamoDbLeases:
    """One item of a lock table."""

    def __init__(
        self,
        address: DynamoDbAddress,
        key: str,
        owner: LockOwner,
        lease_clock: clock.Clock,
        random: identity.Random,
    ) -> None:
        """Take the table, the item's key, who we are, and where times and versions come from."""
        self._address = address
        self._key = key
        self._owner = owner
        self._clock = lease_clock
        self._random = random
        self._watched = _Watched(version="", since_s=0.0, lease_s=0.0)

    @property
    def description(self) -> str:
        """The lock in words."""
        at = self._address.endpoint or self._address.region
        return f"DynamoDB lock {self._key} in table {self._address.table} at {at}"

    @property
    def owner_text(self) -> str:
        """The `ownerName` of our items."""
        return leases.owner_text(self._owner)

    @property
    def lease_s(self) -> float:
        """How long a lease of ours is."""
        return self._address.lease_s

    @property
    def renew_interval_s(self) -> float:
        """A third of a lease."""
        return self._address.lease_s / _RENEWALS_PER_LEASE

    def look(self) -> Seen | None:
        """Read the item; one request."""
        while True:
            try:
                with self._reported():
                    answer = self._client.get_item(
                        TableName=self._address.table,
                        Key={_KEY: {"S": self._key}},
                        ConsistentRead=True,
                    )
            except errors.NotFoundError:
                self._make_table()
            else:
                return self._seen(answer["Item"]) if "Item" in answer else None

    def _seen(self, item: dict[str, dict[str, str]]) -> Seen:
        try:
            version = item["recordVersionNumber"]["S"]
            owner = item["ownerName"]["S"]
            duration_s = int(item["leaseDuration"]["S"]) / 1000
            token = int(item.get("fencingToken", {"N": "0"})["N"])
        except (KeyError, ValueError) as error:
            raise errors.FormatError(
                f"the {self.description} is not a lock item: {error}"
            ) from error
        if version != self._watched.version:
            now_s = self._clock.monotonic_s()
            self._watched = _Watched(version=version, since_s=now_s, lease_s=duration_s)
        return Seen(
            version=version,
            owner=owner,
            is_given_back=item.get("isReleased", {}).get("S") == "1",
            token=token,
            until=f"which renews its lease of {duration_s:g} s",
        )

    def is_over(self, seen: Seen) -> bool:
        """Return whether the version stayed the same for the lease's own duration."""
        watched = self._watched
        assert watched.version == seen.version
        return self._clock.monotonic_s() - watched.since_s > watched.lease_s

    def take(self, before: Seen | None) -> Seen | None:
        """Put an item of ours."""
        last = 0 if before is None else before.token
        taken = Seen(
            version=self._random.uuid(),
            owner=self.owner_text,
            is_given_back=False,
            token=max(last + 1, self._clock.now_ms()),
            until="",
        )
        item = {
            _KEY: {"S": self._key},
            "ownerName": {"S": taken.owner},
            "leaseDuration": self._duration,
            "recordVersionNumber": {"S": taken.version},
            "fencingToken": {"N": str(taken.token)},
        }
        condition: dict[str, Any] = {
            "ConditionExpression": "attribute_not_exists(#key)",
            "ExpressionAttributeNames": {"#key": _KEY},
        }
        if before is not None:
            condition = {
                "ConditionExpression": "attribute_exists(#key) AND #version = :version",
                "ExpressionAttributeNames": {"#key": _KEY, "#version": "recordVersionNumber"},
                "ExpressionAttributeValues": {":version": {"S": before.version}},
            }
        put = functools.partial(
            self._client.put_item, TableName=self._address.table, Item=item, **condition
        )
        return self._written(taken, put)

    def renew(self, held: Seen) -> Seen | None:
        """Set another version."""
        return self._update(held, "leaseDuration", self._duration)

    def give_back(self, held: Seen) -> Seen | None:
        """Mark the item as released; it stays, and keeps the token."""
        return self._update(held, "isReleased", {"S": "1"})

    def last_sign_ms(self) -> int | None:
        """Return None: an item does not tell when it was written."""
        return None

    @property
    def _duration(self) -> dict[str, str]:
        return {"S": str(round(self._address.lease_s * 1000))}

    def _update(self, held: Seen, attribute: str, value: dict[str, str]) -> Seen | None:
        wanted = dataclasses.replace(held, version=self._random.uuid())
        update = functools.partial(
            self._client.update_item,
            TableName=self._address.table,
            Key={_KEY: {"S": self._key}},
            UpdateExpression="SET #attribute = :value, #version = :next",
            ConditionExpression="attribute_exists(#key) AND #version = :version AND #owner = :own",
            ExpressionAttributeNames={
                "#key": _KEY,
                "#version": "recordVersionNumber",
                "#owner": "ownerName",
                "#attribute": attribute,
            },
            ExpressionAttributeValues={
                ":value": value,
                ":next": {"S": wanted.version},
                ":version": {"S": held.version},
                ":own": {"S": held.owner},
            },
        )
        return self._written(wanted, update)

    def _written(self, wanted: Seen, write: Callable[[], object]) -> Seen | None:
        try:
            with self._reported():
                write()
        except errors.ConflictError:
            return self._echo(wanted)
        except errors.StorageError:
            echo = self._echo(wanted)
            if echo is None:
                raise
            return echo
        return wanted

    def _echo(self, wanted: Seen) -> Seen | None:
        now = self.look()
        return now if now is not None and now.version == wanted.version else None

    @property
    def _client(self) -> Any:  # noqa: ANN401 - boto3 has no types
        with self._reported():
            return _client(self._address.region, self._address.endpoint)

    def _make_table(self) -> None:
        capacity = self._address.capacity
        billing: dict[str, Any] = {"BillingMode": "PAY_PER_REQUEST"}
        if capacity is not None:
            throughput = {"ReadCapacityUnits": capacity[0], "WriteCapacityUnits": capacity[1]}
            billing = {"BillingMode": "PROVISIONED", "ProvisionedThroughput": throughput}
        with suppress(errors.AlreadyExistsError), self._reported():
            self._client.create_table(
                TableName=self._address.table,
                KeySchema=[{"AttributeName": _KEY, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": _KEY, "AttributeType": "S"}],
                **billing,
            )
        deadline_s = self._clock.monotonic_s() + _TABLE_WAIT_S
        while not self._is_table_ready():
            if self._clock.monotonic_s() >= deadline_s:
                raise errors.StorageError(
                    f"the table of the {self.description} was created, but is not active "
                    f"after {_TABLE_WAIT_S:g} s"
                )
            self._clock.sleep_s(_TABLE_POLL_S)

    def _is_table_ready(self) -> bool:
        try:
            with self._reported():
                answer = self._client.describe_table(TableName=self._address.table)
        except errors.NotFoundError:
            return False
        return answer["Table"]["TableStatus"] in {"ACTIVE", "UPDATING"}

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Turn the client's errors into ours, naming the lock and no credential."""
        try:
            yield
        except botocore.exceptions.ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            kind = _KINDS.get(code, errors.StorageError)
            raise kind(f"the {self.description} answers {code} to {self._owner}") from error
        except _MISSING_SETTINGS as error:
            raise errors.ConfigurationError(
                f"the {self.description} cannot be asked: {error}"
            ) from error
        except botocore.exceptions.BotoCoreError as error:
            raise errors.StorageError(
                f"the {self.description} does not answer: {type(error).__name__}"
            ) from error

    def note(self, event: leases.Event) -> None:
        """Do nothing: an item tells all there is."""

    def close(self) -> None:
        """Do nothing: the connections are the whole process's."""


def open_leases(
    address: DynamoDbAddress,
    key: str,
    owner: LockOwner,
    lease_clock: clock.Clock,
    random: identity.Random,
) -> leases.LeaseStore:
    """Return one access to an item of a lock table; nothing is asked yet."""
    return DynamoDbLeases(address, key, owner, lease_clock, random)


@functools.cache
def _client(region: str, endpoint: str | None) -> Any:  # noqa: ANN401 - boto3 has no types
    # One for the process: making it takes longer than a lock is held, and threads may share it.
    session = boto3.session.Session()
    return session.client(
        "dynamodb", region_name=region, endpoint_url=endpoint, config=_CLIENT_CONFIG
    )
