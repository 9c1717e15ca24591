"""Manifests: what is read, and how what does not fit is told."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie_operator.api import group, hudi_table, kinds, manifests
from support.operators import rule_examples

BOUND_S = 6.0


def _text(kind: str, spec: object, **top: object) -> str:
    return json.dumps(
        {
            "apiVersion": group.API_VERSION,
            "kind": kind,
            "metadata": {"name": "a"},
            "spec": spec,
            **top,
        }
    )


def _problems(text: str) -> list[str]:
    found, problems = manifests.parse(text.encode(), "x.yaml")
    assert not found
    return [str(problem) for problem in problems]


@pytest.mark.parametrize("kind", kinds.BY_NAME)
def test_valid_manifest_is_read(kind: str) -> None:
    found, problems = manifests.parse(_text(kind, rule_examples.VALID[kind]).encode(), "x.yaml")
    assert problems == []
    (manifest,) = found
    assert (manifest.key.kind, manifest.key.namespace, manifest.key.name) == (kind, "default", "a")


def test_documents_of_a_file_are_read_apart() -> None:
    good, bad = _text("HudiTable", rule_examples.TABLE), _text("HudiTable", {})
    found, problems = manifests.parse(f"{good}\n---\n{bad}\n---\n---\n{good}\n".encode(), "x.yaml")
    assert [manifest.document for manifest in found] == [1, 4]
    assert {problem.document for problem in problems} == {2}


@pytest.mark.parametrize("spelled", ["eventtime", "EVENT_TIME", "event-time", "EventTime"])
def test_words_of_enumerations_are_taken_in_any_case(spelled: str) -> None:
    edits = {"merge__mode": spelled, "keys__orderingFields": ["n"]}
    text = _text("HudiTable", rule_examples.edited(rule_examples.TABLE, **edits))
    (manifest,), problems = manifests.parse(text.encode(), "x.yaml")
    assert problems == []
    assert isinstance(manifest.spec, hudi_table.HudiTableSpec)
    assert manifest.spec.merge.mode is hudi_table.MergeMode.EVENT_TIME
    told = [(each.path, each.message) for each in manifest.respelled]
    message = f'is "{spelled}", taken for EventTime, which an API server expects'
    assert told == ([] if spelled == "EventTime" else [("spec.merge.mode", message)])


def test_word_in_another_case_hides_no_other_problem() -> None:
    edits = {"merge__mode": "COMMITTIME", "tableVersion": 7, "tableType": "mergeonread"}
    (problem,) = _problems(_text("HudiTable", rule_examples.edited(rule_examples.TABLE, **edits)))
    assert problem == "x.yaml, document 1: spec.tableVersion: is 7, expected 8 or more"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"storage__pat": "x"}, "spec.storage.pat: unknown field, did you mean path?"),
        ({"storage__path": 3}, "spec.storage.path: is 3, expected a text"),
        ({"storage": None}, "spec.storage: is missing"),
        ({"storage": "x"}, 'spec.storage: is "x", expected an object'),
        ({"suspend": "yes"}, 'spec.suspend: is "yes", expected true or false'),
        ({"tableVersion": 7}, "spec.tableVersion: is 7, expected 8 or more"),
        ({"tableVersion": 8.5}, "spec.tableVersion: is 8.5, expected a whole number"),
        ({"writeIndex__bucket__count": 0}, "spec.writeIndex.bucket.count: is 0, expected 1 or"),
        ({"keys__recordFields": None}, "spec.keys.recordFields: is missing"),
        ({"keys__recordFields": ["a b"]}, 'spec.keys.recordFields[0]: is "a b", expected letters'),
        ({"merge__mode": "Last"}, 'spec.merge.mode: is "Last", expected one of CommitTime, Event'),
        ({"files__logFileSize": "1 GB"}, 'spec.files.logFileSize: is "1 GB", expected a size such'),
        ({"files__logFileSize": -1}, "spec.files.logFileSize: is -1, expected a size such"),
        (
            {"concurrency__mode": "NonBlocking"},
            "spec.concurrency.lockRef: is required with mode Non",
        ),
    ],
)
def test_spec_that_does_not_fit_is_told_by_path_and_expectation(
    edit: dict[str, object], message: str
) -> None:
    (problem,) = _problems(_text("HudiTable", rule_examples.edited(rule_examples.TABLE, **edit)))
    assert problem.startswith(f"x.yaml, document 1: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_text("Hudi", {}), 'document 1: kind: is "Hudi", expected one of HudiTable, Writer'),
        (_text("Writer", {}, apiVersion="v1"), 'document 1: apiVersion: is "v1", expected '),
        (_text("Writer", rule_examples.WRITER, status={}), "document 1: status: unknown field"),
        (_text("Writer", None), "document 1: spec: is missing, expected an object"),
        (_text("LockProvider", rule_examples.LOCK, metadata={}), "metadata.name: is missing"),
        (
            _text("LockProvider", rule_examples.LOCK, metadata={"name": "A_b"}),
            'metadata.name: is "A_b", expected lower-case letters',
        ),
        ("3", "document 1: is 3, expected an object"),
        ("a: [", "x.yaml: is not valid YAML"),
        ("a: 1\na: 2", "x.yaml: is not valid YAML: found key 'a' twice"),
        ("? [a]\n: b", "x.yaml: is not valid YAML: found a key that is not a string"),
        ("a: !!python/object:os.system x", "x.yaml: is not valid YAML: could not determine"),
        (
            _text("Writer", {}).replace("{}", "{a: .nan}"),
            "spec: holds a value that JSON cannot represent",
        ),
        (_text("Writer", {}).replace("{}", "{a: !!binary aGk=}"), "spec: holds a value that JSON"),
    ],
)
def test_text_that_is_no_manifest_is_told(text: str, message: str) -> None:
    (problem,) = _problems(text)
    assert message in problem


def test_dates_and_numbers_in_texts_stay_what_they_are() -> None:
    text = _text("HudiTable", rule_examples.TABLE).replace(
        '"name": "a"', '"name": "a", "labels": {"since": 2024-01-01}'
    )
    (manifest,), problems = manifests.parse(text.encode(), "x.yaml")
    assert (problems, manifest.labels) == ([], {"since": "2024-01-01"})


def test_field_that_is_null_is_absent() -> None:
    # As for an API server: it takes such a field away, and then fills in its default.
    nulls = {"suspend": None, "merge": {"mode": None}, "tableName": None}
    (manifest,), problems = manifests.parse(
        _text("HudiTable", rule_examples.TABLE | nulls).encode(), "x.yaml"
    )
    assert problems == []
    expected = hudi_table.HudiTableSpec.model_validate_json(json.dumps(rule_examples.TABLE))
    assert manifest.spec == expected


def test_whole_number_with_a_point_is_a_whole_number() -> None:
    spec = rule_examples.edited(rule_examples.TABLE, tableVersion=8.0)
    (manifest,), problems = manifests.parse(_text("HudiTable", spec).encode(), "x.yaml")
    assert problems == []
    assert isinstance(manifest.spec, hudi_table.HudiTableSpec)
    assert manifest.spec.table_version == 8


def test_anchors_are_followed() -> None:
    text = f"""
apiVersion: {group.API_VERSION}
kind: CompactionPolicy
metadata: {{name: a, labels: &labels {{tier: gold}}}}
spec: {{target: {{tableSelector: {{matchLabels: *labels}}}}, triggers: {{deltaCommits: 4}}}}
"""
    (manifest,), problems = manifests.parse(text.encode(), "x.yaml")
    assert problems == []
    assert manifest.labels == {"tier": "gold"}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "a: " * 100_000,
        "x: &x [*x]",
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n"
            for before, name in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "n: " + "9" * 10_000,
        "x" * (manifests.BYTES_MAX + 1),
        "---\n" + "--- 1\n" * 2000,
        "a:\n" + "- a\n" * 250_000,
    ],
    ids=["deep", "keys", "self", "laughs", "number", "long", "documents", "values"],
)
def test_hostile_text_is_refused_in_bounded_time(text: str) -> None:
    start_s = time.process_time()
    found, problems = manifests.parse(text.encode(), "x.yaml")
    assert (found, [problem.document for problem in problems][-1:]) == ([], [0])
    assert time.process_time() - start_s < BOUND_S


def test_bytes_that_are_no_utf8_are_told() -> None:
    found, (problem,) = manifests.parse(b"a: \xff", "x.yaml")
    assert not found
    assert str(problem).startswith("x.yaml: is not valid YAML")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(data=_JSON, field=st.sampled_from(["storage", "keys", "schema", "writeIndex", "files"]))
def test_any_value_in_any_place_is_read_or_told(data: object, field: str) -> None:
    text = _text("HudiTable", {**rule_examples.TABLE, field: data})
    found, problems = manifests.parse(text.encode(), "x.yaml")
    assert bool(found) != bool(problems)
    for manifest in found:
        assert isinstance(manifest.spec, hudi_table.HudiTableSpec)
