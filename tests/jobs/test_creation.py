"""Where tables may be created: in places that hold nothing else."""

from pathlib import Path

import pytest

from hoodie import errors
from hoodie.model import jobs
from support.job_workshop import Workshop


def test_place_that_holds_other_files_is_refused(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    other = Path(workshop.uri) / "in" / "a.csv"
    other.parent.mkdir(parents=True)
    other.touch()
    with pytest.raises(errors.AlreadyExistsError, match=r"is no table and holds in/a\.csv"):
        workshop.run(workshop.spec(jobs.CreateTable()))
    assert list(Path(workshop.uri).rglob("*")) == [other.parent, other]


def test_what_a_killed_creation_left_is_no_hindrance(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    (Path(workshop.uri) / ".hoodie" / "timeline").mkdir(parents=True)
    (Path(workshop.uri) / ".hoodie" / "hoodie.properties_backup").touch()
    workshop.run(workshop.spec(jobs.CreateTable()))
    assert workshop.table().config.bucket_count == 4
