"""What our jobs stand on is forced onto Spark's session, whatever a spec says."""

import pytest
from pyspark.sql import SparkSession

from hoodie import errors
from hoodie_jobs.spark import session


@pytest.mark.parametrize(
    ("key", "value"),
    [("spark.speculation", "true"), ("spark.sql.session.timeZone", "Europe/Berlin")],
)
def test_property_that_contradicts_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=f"{key} is '{value}', expected"):
        session.open_session("contradicting", 1, {key: value})


def test_session_is_of_what_jobs_stand_on(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.speculation") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
