"""An observer over HTTP: it tells what is seen in place, and only to who knows its token."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie import environment
from hoodie.model import json_values, settings
from hoodie_operator.api import writer
from hoodie_operator.observing import dialogue, inputs, tables
from hoodie_operator.observing.observer import Bounds, Observer
from support.operators.observer_served import TOKEN, Served
from support.tables.job_workshop import Workshop


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    env = environment.system(allowed_roots=(str(tmp_path),))
    found = Served(Observer(env, (str(tmp_path),), Bounds(threads=2)), tmp_path)
    yield found
    found.close()


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    made = Workshop(tmp_path)
    made.create()
    return made


def _question(workshop: Workshop, known: str = "") -> dialogue.TableQuestion:
    return dialogue.TableQuestion(
        uri=f"file://{workshop.uri}", settings=settings.WriteSettings(), known=known
    )


def test_observer_tells_what_is_seen_in_place(served: Served, workshop: Workshop) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    workshop.write(workshop.file("2", "b,eu,2,y\n"))
    (told,) = served.tables(_question(workshop))
    assert told.table is not None
    env = environment.system(allowed_roots=(str(workshop.folder),))
    target = tables.TableTarget(uri=f"file://{workshop.uri}", settings=settings.WriteSettings())
    seen = tables.TableObserver(env).look(target)
    assert len(seen.commits) == 2
    assert dialogue.heard_table(told.table, seen.observed_ms) == seen


def test_what_is_known_is_not_told_again(served: Served, workshop: Workshop) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\n"))
    (first,) = served.tables(_question(workshop))
    (second,) = served.tables(_question(workshop, known=first.digest))
    assert (second.table, second.digest) == (None, first.digest)
    workshop.write(workshop.file("2", "b,eu,2,y\n"))
    (third,) = served.tables(_question(workshop, known=first.digest))
    assert third.table is not None
    assert len(third.table.commits) == 2


def test_tables_that_are_not_there_or_not_allowed_are_told(
    served: Served, workshop: Workshop, tmp_path: Path
) -> None:
    nowhere = dialogue.TableQuestion(
        uri=f"file://{tmp_path}/nowhere", settings=settings.WriteSettings()
    )
    env = dialogue.TableQuestion(uri="file:///etc", settings=settings.WriteSettings())
    absent, refused, there = served.tables(nowhere, env, _question(workshop))
    assert absent.table == dialogue.Table()
    assert refused.table is not None
    assert refused.table.problem is not None
    assert refused.table.problem.kind == "InvalidInput"
    assert there.table is not None
    assert there.table.properties is not None


def test_source_is_told_as_it_is_seen_in_place(
    served: Served, workshop: Workshop, tmp_path: Path
) -> None:
    workshop.file("1.csv", "a,eu,1,x\n")
    workshop.file("2.csv", "b,eu,2,y\n")
    source = writer.Source(
        files=writer.FilesSource(path="*.csv", format=writer.FileFormat.CSV, files_per_commit=2)
    )
    question = dialogue.source_question(source)
    status, body = served.ask(dialogue.SOURCE_PATH, json_values.encode(question))
    assert status == 200
    answer = json_values.decode(dialogue.SourceAnswer, body, "answer")
    assert answer.source is not None
    clock = environment.system().clock
    seen = inputs.InputObserver((str(tmp_path),), clock).look(7, source)
    assert dialogue.heard_source(answer.source, 7, seen.observed_ms) == seen
    assert len(seen.groups[0]) == 2
    again = dialogue.source_question(source, known=answer.digest)
    _, body = served.ask(dialogue.SOURCE_PATH, json_values.encode(again))
    assert json_values.decode(dialogue.SourceAnswer, body, "answer").source is None


@pytest.mark.parametrize("token", ["", "another", f"{TOKEN}x", "é"])
def test_who_does_not_know_the_token_learns_nothing(served: Served, token: str) -> None:
    if not token.isascii():
        token = token.encode().decode("latin-1")
    assert served.ask(dialogue.TABLES_PATH, b"{}", token) == (401, b"")


def test_renewed_token_is_taken(served: Served, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("renewed")
    body = json_values.encode(dialogue.TablesQuestion(tables=()))
    assert served.ask(dialogue.TABLES_PATH, body)[0] == 401
    assert served.ask(dialogue.TABLES_PATH, body, "renewed")[0] == 200
    (tmp_path / "token").write_text("")
    assert served.ask(dialogue.TABLES_PATH, body, "")[0] == 401


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v2/tables", b"{}", 404),
        (dialogue.TABLES_PATH, b"no json", 400),
        (dialogue.TABLES_PATH, b'{"tables": 1}', 400),
        (dialogue.SOURCE_PATH, b'{"source": "{}"}', 400),
        (dialogue.TABLES_PATH, b"[" * (dialogue.BODY_BYTES_MAX + 1), 413),
    ],
)
def test_question_that_is_none_is_refused(
    served: Served, path: str, body: bytes, status: int
) -> None:
    try:
        assert served.ask(path, body)[0] == status
    except (BrokenPipeError, ConnectionResetError):
        assert status == 413  # It is cut off before it has said all.
    assert served.ask(dialogue.TABLES_PATH, b'{"tables": []}')[0] == 200


def test_storage_that_hangs_is_told_and_holds_up_no_other(tmp_path: Path) -> None:
    release = threading.Event()
    env = environment.system(allowed_roots=(str(tmp_path),))

    def open_storage(uri: str) -> object:
        if uri.endswith("/hanging"):
            release.wait(30)
        return env.open_storage(uri)

    slow = environment.Environment(
        open_storage=open_storage,  # type: ignore[arg-type]  # it returns what the real one does
        clock=env.clock,
        random=env.random,
        background=env.background,
        engine=env.engine,
        process=env.process,
    )
    observer = Observer(slow, (str(tmp_path),), Bounds(threads=2, time_limit_s=1))
    names = ("hanging", "other")
    question = dialogue.TablesQuestion(
        tables=tuple(
            dialogue.TableQuestion(
                uri=f"file://{tmp_path}/{name}", settings=settings.WriteSettings()
            )
            for name in names
        )
    )
    try:
        for _ in range(3):
            hanging, other = observer.look_at_tables(question).tables
            assert hanging.table is not None
            assert hanging.table.problem is not None
            assert "was not read within 1 s" in hanging.table.problem.message
            assert other.table == dialogue.Table()
    finally:
        release.set()
    hanging, _ = observer.look_at_tables(question).tables
    assert hanging.table == dialogue.Table()


def test_too_many_tables_are_refused(served: Served, workshop: Workshop) -> None:
    body = {
        "tables": [
            json.loads(json_values.encode(_question(workshop)))
            for _ in range(dialogue.TABLES_MAX + 1)
        ]
    }
    status, told = served.ask(dialogue.TABLES_PATH, json.dumps(body).encode())
    assert status == 400
    assert b"expected 500 at most" in told
