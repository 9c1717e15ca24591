"""From folders of manifests to objects: new, changed, refused, vanished."""

import dataclasses
import itertools
import json
import os
from pathlib import Path

import pytest

from hoodie import clock, errors
from hoodie_operator.api import documents, group, hudi_table_status, kinds, objects
from hoodie_operator.reconcile import effective
from hoodie_operator.standalone import applying, store
from hoodie_operator.standalone.folder import Folder
from support.operators import rule_examples

UIDS = (f"uid-{number}" for number in itertools.count())


def _write(path: Path, kind: str, name: str, spec: object, **metadata: object) -> Path:
    document = {
        "apiVersion": group.API_VERSION,
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def _apply(
    stored: dict[objects.ObjectKey, objects.AnyObject], folder: Folder, *, may_prune: bool = False
) -> applying.Changes:
    changes = applying.apply(
        stored, folder.read(), may_prune=may_prune, now_ms=1000, new_uid=lambda: next(UIDS)
    )
    stored.update({found.key: found for found in changes.put})
    return changes


def test_yaml_of_every_folder_but_hidden_ones_is_read(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yml", "c.json", "in/d.yaml", ".git/e.yaml", ".f.yaml", "g.txt"):
        _write(tmp_path / name, "LockProvider", Path(name).stem.strip("."), {"type": "FileSystem"})
    state = Folder(tmp_path).read()
    assert [manifest.key.name for manifest in state.declared] == ["a", "b", "d"]
    assert state.is_complete


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_single_file_is_a_folder_of_one(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / name, "LockProvider", "a", {"type": "FileSystem"})
    folder = Folder(path)
    assert len(folder.read().declared) == 1
    assert folder.root == tmp_path


def test_what_is_no_file_is_told_by_its_name_and_hides_no_other(tmp_path: Path) -> None:
    _write(tmp_path / "a.yaml", "LockProvider", "a", {"type": "FileSystem"})
    os.mkfifo(tmp_path / "fifo.yaml")
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    (tmp_path / "circle.yaml").symlink_to("circle.yaml")
    (tmp_path / "nowhere.yaml").symlink_to("nothing")
    state = Folder(tmp_path).read()
    assert [manifest.key.name for manifest in state.declared] == ["a"]
    assert [str(problem) for problem in state.problems] == [
        "circle.yaml: cannot be read: Too many levels of symbolic links",
        "endless.yaml: cannot be read: it is not a regular file",
        "fifo.yaml: cannot be read: it is not a regular file",
        "nowhere.yaml: cannot be read: No such file or directory",
    ]


def test_name_that_is_no_utf8_is_told_as_far_as_it_can_be(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")).write_text("3")
    (problem,) = Folder(tmp_path).read().problems
    assert str(problem).startswith("?.yaml, document 1: is 3")


def test_object_declared_twice_is_refused_with_both_places(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        _write(tmp_path / name, "LockProvider", "lock", {"type": "FileSystem"})
    (problem,) = Folder(tmp_path).read().problems
    assert (
        str(problem) == "b.yaml, document 1: declares LockProvider lock, as a.yaml, document 1 does"
    )


def test_unchanged_folder_is_the_same_state_and_a_changed_one_is_not(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.yaml", "Writer", "a", rule_examples.WRITER)
    folder = Folder(tmp_path)
    first = folder.read()
    assert folder.read() is first
    os.utime(path, (1, 1))
    assert folder.read().digest == first.digest
    _write(path, "Writer", "a", rule_examples.edited(rule_examples.WRITER, suspend=True))
    assert folder.read().digest != first.digest


def test_folder_that_cannot_be_read_is_no_complete_state(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    folder = Folder(tmp_path / "m")
    (tmp_path / "m").rmdir()
    state = folder.read()
    assert not state.is_complete
    assert state.declared == ()


def test_link_to_nowhere_is_no_complete_state(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "nowhere")
    assert not Folder(tmp_path).read().is_complete


def test_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="there is no such file or folder"):
        Folder(tmp_path / "nowhere")


def test_changed_spec_is_another_generation_and_changed_labels_are_not(tmp_path: Path) -> None:
    stored: dict[objects.ObjectKey, objects.AnyObject] = {}
    folder = Folder(tmp_path)
    path = tmp_path / "a.yaml"
    _write(path, "Writer", "a", rule_examples.WRITER)
    (made,) = _apply(stored, folder).put
    assert (made.generation, made.created_ms) == (1, 1000)
    assert _apply(stored, folder).put == ()
    _write(path, "Writer", "a", rule_examples.WRITER, labels={"tier": "gold"})
    (labelled,) = _apply(stored, folder).put
    assert (labelled.generation, labelled.uid) == (1, made.uid)
    edited = rule_examples.edited(rule_examples.WRITER, suspend=True)
    _write(path, "Writer", "a", edited, labels={"tier": "gold"})
    (changed,) = _apply(stored, folder).put
    assert (changed.generation, changed.uid) == (2, made.uid)


def test_forbidden_change_is_refused_and_freezes_pruning(tmp_path: Path) -> None:
    stored: dict[objects.ObjectKey, objects.AnyObject] = {}
    folder = Folder(tmp_path)
    _write(tmp_path / "a.yaml", "Writer", "a", rule_examples.WRITER)
    _write(tmp_path / "b.yaml", "Writer", "b", rule_examples.WRITER)
    _apply(stored, folder)
    (tmp_path / "b.yaml").unlink()
    edited = rule_examples.edited(rule_examples.WRITER, tableRef__name="other")
    _write(tmp_path / "a.yaml", "Writer", "a", edited)
    changes = _apply(stored, folder, may_prune=True)
    (problem,) = changes.problems
    assert str(problem) == (
        "a.yaml, document 1: spec.tableRef: cannot be changed (Writer a exists)"
    )
    assert changes.put == ()
    assert [key.name for key in changes.vanished] == ["b"]


@pytest.mark.parametrize("is_provisioned", [True, False])
def test_schema_of_a_table_is_corrected_until_the_table_is_there(
    tmp_path: Path, *, is_provisioned: bool
) -> None:
    stored: dict[objects.ObjectKey, objects.AnyObject] = {}
    folder = Folder(tmp_path)
    path = _write(tmp_path / "a.yaml", "HudiTable", "a", rule_examples.TABLE)
    (made,) = _apply(stored, folder).put
    status = hudi_table_status.HudiTableStatus(provisioned=is_provisioned)
    stored[made.key] = dataclasses.replace(made, status=status)
    columns = [*rule_examples.TABLE["schema"]["columns"], {"name": "tip", "type": "double"}]
    _write(
        path, "HudiTable", "a", rule_examples.edited(rule_examples.TABLE, schema__columns=columns)
    )
    changes = _apply(stored, folder)
    told = [problem.path for problem in changes.problems]
    assert (told, len(changes.put)) == ((["spec.schema"], 0) if is_provisioned else ([], 1))
    if is_provisioned:
        assert "A Writer with source.files.addColumns" in str(changes.problems[0])


def test_vanished_object_is_marked_when_it_may_be_pruned(tmp_path: Path) -> None:
    stored: dict[objects.ObjectKey, objects.AnyObject] = {}
    folder = Folder(tmp_path)
    path = _write(tmp_path / "a.yaml", "Writer", "a", rule_examples.WRITER)
    _write(tmp_path / "b.yaml", "Writer", "b", rule_examples.WRITER)
    _apply(stored, folder)
    path.unlink()
    assert _apply(stored, folder).put == ()
    (marked,) = _apply(stored, folder, may_prune=True).put
    assert marked.is_deleting
    _write(path, "Writer", "a", rule_examples.WRITER)
    assert _apply(stored, folder).put == (), "it comes back once it is gone"


@pytest.mark.parametrize(
    ("policy", "protection", "is_kept"),
    [
        ("Delete", None, True),
        ("Delete", True, True),
        ("Delete", False, False),
        ("Retain", True, False),
    ],
)
def test_table_whose_data_would_go_is_pruned_only_without_protection(
    tmp_path: Path, policy: str, protection: bool | None, is_kept: bool
) -> None:
    said = {} if protection is None else {"deletionProtection": protection}
    spec = {**rule_examples.TABLE, "deletionPolicy": policy, **said}
    path = _write(tmp_path / "t.yaml", "HudiTable", "orders", spec)
    _write(tmp_path / "l.yaml", "LockProvider", "stays", {"type": "FileSystem"})
    stored: dict[objects.ObjectKey, objects.AnyObject] = {}
    _apply(stored, Folder(tmp_path))
    path.unlink()
    changes = _apply(stored, Folder(tmp_path), may_prune=True)
    assert [key.name for key in changes.protected] == (["orders"] if is_kept else [])
    assert [found.name for found in changes.put if found.is_deleting] == (
        [] if is_kept else ["orders"]
    )
    assert changes.vanished == ()


def test_empty_folder_prunes_nothing(tmp_path: Path) -> None:
    stored: dict[objects.ObjectKey, objects.AnyObject] = {}
    folder = Folder(tmp_path)
    path = _write(tmp_path / "a.yaml", "Writer", "a", rule_examples.WRITER)
    _apply(stored, folder)
    path.unlink()
    changes = _apply(stored, folder, may_prune=True)
    assert changes.put == ()
    assert [key.name for key in changes.vanished] == ["a"]


def test_object_that_was_made_is_not_pruned(tmp_path: Path) -> None:
    stored: dict[objects.ObjectKey, objects.AnyObject] = {}
    _write(tmp_path / "b.yaml", "Writer", "b", rule_examples.WRITER)
    key = objects.ObjectKey(kind="TableAction", namespace="default", name="a")
    stored[key] = objects.Object(
        key=key,
        uid="u",
        generation=1,
        created_ms=0,
        owner=objects.Owner(kind="HudiTable", name="t", uid="v"),
        spec=kinds.TABLE_ACTION.spec.model_validate_json(json.dumps(rule_examples.ACTION)),
        status=kinds.TABLE_ACTION.status(),
    )
    changes = _apply(stored, Folder(tmp_path), may_prune=True)
    assert [each.key.name for each in changes.put] == ["b"]
    assert not any(each.is_deleting for each in changes.put)
    assert changes.vanished == ()


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_stored_object_reads_back(kind: kinds.Kind, tmp_path: Path) -> None:
    key = objects.ObjectKey(kind=kind.name, namespace="default", name="a")
    made: objects.AnyObject = objects.Object(
        key=key,
        uid="u",
        generation=3,
        created_ms=5000,
        labels={"a": "b"},
        owner=objects.Owner(kind="HudiTable", name="t", uid="v"),
        deletion_ms=7000,
        spec=kind.spec.model_validate_json(json.dumps(rule_examples.VALID[kind.name])),
        status=kind.status(observed_generation=2, state="Ready"),
    )
    assert documents.from_document(documents.to_document(made)) == made
    stored = store.Store(tmp_path, effective.locator("file:///data"), clock.SystemClock())
    stored.put(made)
    assert store.load(tmp_path) == {key: made}
    stored.remove(key)
    assert store.load(tmp_path) == {}


def test_field_of_a_newer_version_is_left_out_of_a_stored_object() -> None:
    document = {
        "kind": "Writer",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "u",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {**rule_examples.WRITER, "novelty": 1},
        "status": {"novelty": {"deep": 1}},
    }
    found = documents.from_document(document)
    assert found.key.name == "a"
    with pytest.raises(errors.FormatError, match="no stored object"):
        documents.from_document({"kind": "Writer"})


def test_damaged_state_is_told_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "objects" / "Writer" / "default.a.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(errors.FormatError, match=r"default\.a\.json"):
        store.load(tmp_path)
