"""Tests of a file run in one process (tests/conftest.py), so that they share what is set up."""

import pytest


@pytest.mark.parametrize("number", range(8))
def test_tests_of_a_file_run_in_one_process(
    number: int, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> None:
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "distribution"
    folder.mkdir(exist_ok=True)
    (folder / worker_id).touch()
    assert [each.name for each in folder.iterdir()] == [worker_id]
