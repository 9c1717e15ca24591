"""The operator's configuration file: defaults, and refusals that name the field."""

import pytest

from hoodie import errors
from hoodie_operator.api import configuration, fields


def test_only_the_data_roots_have_to_be_told() -> None:
    found = configuration.parse(b"dataRoots: [/data, 's3://lake/']", "operator.yaml")
    assert found.data_roots == ("/data", "s3://lake/")
    assert found.watch_namespaces == ()
    assert found.image.pull_policy is configuration.PullPolicy.IF_NOT_PRESENT
    assert fields.duration_ms(found.observers.idle_interval) == 30_000


def test_everything_may_be_told() -> None:
    text = b"""
dataRoots: [/data]
watchNamespaces: [sales]
serviceAccounts: {default: hudi-jobs, allowed: [lake-reader]}
image: {name: "registry.example/hudi:1", pullPolicy: Never, pullSecrets: [registry]}
resources:
  runs: {requests: {cpu: 2, memory: 1Gi}, limits: {memory: 2Gi}}
observers: {threads: 4, timeLimit: 5s}
limits: {imageDeadline: 30s, runsKept: 2}
"""
    found = configuration.parse(text, "operator.yaml")
    assert found.service_accounts.allowed == ("lake-reader",)
    assert found.resources.runs.requests.cpu == 2
    assert found.limits.runs_kept == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"{}", "operator.yaml: dataRoots: is missing"),
        (b"dataRoots: []", "operator.yaml: dataRoots: is [], expected at least 1 entries"),
        (b"dataRoots: [/d]\nwatchNamespace: [a]", "watchNamespace: unknown field, did you mean"),
        (b"dataRoots: [/d]\nobservers: {threads: 0}", "observers.threads: is 0, expected 1"),
        (b"dataRoots: [/d]\nlimits: {stopGrace: soon}", "limits.stopGrace"),
        (b"- a", "expected an object"),
        (b"a: [", "is not valid YAML"),
        (b"a: 1\n---\nb: 1", "holds 2 documents, expected one"),
    ],
)
def test_what_does_not_fit_is_named(text: bytes, told: str) -> None:
    with pytest.raises(errors.InvalidInputError) as caught:
        configuration.parse(text, "operator.yaml")
    assert told in str(caught.value)
