"""An observer whose look fails in a way that nobody foresaw."""

import pytest

from hoodie import environment
from hoodie.model import settings
from hoodie_operator.api import writer
from hoodie_operator.observing import dialogue, inputs, tables
from hoodie_operator.observing.observer import Bounds, Observer
from hoodie_operator.reconcile import facts


def test_look_that_fails_is_told_and_costs_no_other_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look(self: tables.TableObserver, target: tables.TableTarget) -> facts.TableFacts:
        if target.uri == "file:///data/bad":
            raise KeyError("unforeseen")
        return facts.TableFacts(observed_ms=1)

    def look_at_source(
        self: inputs.InputObserver, generation: int, source: writer.Source
    ) -> facts.SourceFacts:
        raise KeyError("unforeseen")

    monkeypatch.setattr(tables.TableObserver, "look", look)
    monkeypatch.setattr(inputs.InputObserver, "look", look_at_source)
    outside = environment.system(allowed_roots=("/data",))
    observer = Observer(outside, ("/data",), Bounds())
    questions = [
        dialogue.TableQuestion(uri=f"file:///data/{name}", settings=settings.WriteSettings())
        for name in ("bad", "good")
    ]
    bad, good = observer.look_at_tables(dialogue.TablesQuestion(tables=tuple(questions))).tables
    files = writer.FilesSource(path="in/*.csv", format=writer.FileFormat.CSV)
    question = dialogue.source_question(writer.Source(files=files))
    source = observer.look_at_source(question).source
    assert bad.table is not None
    assert good.table is not None
    assert source is not None
    assert good.table.problem is None
    for problem in (bad.table.problem, source.problem):
        assert problem is not None
        assert problem.is_transient
        assert "KeyError: 'unforeseen'" in problem.message
