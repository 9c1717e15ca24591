"""Settings by Hudi's keys: what each value means, and what is refused."""

from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.model import settings
from hoodie.model.settings import ConflictStrategy as Strategy

STRATEGY_KEY = "hoodie.write.lock.conflict.resolution.strategy"
PACKAGE = "org.apache.hudi.client.transaction."


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("simple", Strategy.SIMPLE),
        ("bucket-index", Strategy.BUCKET_INDEX),
        ("prefer-writer", Strategy.PREFER_WRITER),
        (
            f"{PACKAGE}SimpleConcurrentFileWritesConflictResolutionStrategy",
            Strategy.SIMPLE,
        ),
        (
            f"{PACKAGE}BucketIndexConcurrentFileWritesConflictResolutionStrategy",
            Strategy.BUCKET_INDEX,
        ),
        ("PreferWriterConflictResolutionStrategy", Strategy.PREFER_WRITER),
    ],
)
def test_strategy_is_named_as_apache_hudi_names_it_or_short(text: str, strategy: Strategy) -> None:
    assert settings.from_properties({STRATEGY_KEY: text}).conflict_strategy is strategy


def test_strategy_of_a_users_own_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"com.acme.Mine.*expected one of Simple"):
        settings.from_properties({STRATEGY_KEY: "com.acme.Mine"})


@pytest.mark.parametrize(
    "given",
    [
        settings.WriteSettings(),
        settings.WriteSettings(concurrency=settings.ConcurrencyMode.OPTIMISTIC),
        settings.WriteSettings(failed_writes_policy=settings.FailedWritesPolicy.NEVER),
        settings.WriteSettings(
            merges_inserts=True,
            keeps_newer_columns=False,
            lock_wait_ms=1,
            conflict_strategy=Strategy.PREFER_WRITER,
            early_detection=settings.EarlyDetection.TRANSACTIONAL,
            future_time=settings.FutureTime.ADVANCE,
        ),
    ],
)
def test_properties_tell_settings_as_they_take_effect(given: settings.WriteSettings) -> None:
    """T-L28: also what nobody has set; read again they mean the same."""
    effective = replace(given, failed_writes_policy=given.effective_failed_writes_policy)
    assert settings.from_properties(settings.to_properties(given)) == effective
