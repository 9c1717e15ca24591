"""docs/spark-dataframes.md names every option of `df.write` that the code knows."""

import re
from pathlib import Path

from hoodie_jobs.spark import write_options

PAGE = (Path(__file__).parents[3] / "docs" / "spark-dataframes.md").read_text()


def test_page_names_the_options() -> None:
    named = set(re.findall(r"`([a-z_.0-9]+)`", PAGE))
    own = set(write_options.OWN) - {"path"}
    assert own - named == set()


def test_what_the_page_says_is_ignored_is() -> None:
    paragraph = PAGE.partition("\nIgnored, ")[2].partition("\n")[0]
    names = re.findall(r"`([a-z_.*]+)`", paragraph)
    assert len(names) > 15
    for name in names:
        given = {"path": "/tmp/trips", name.replace("*", "x"): "false"}
        assert write_options.parse(given, is_overwrite=False).uri == "/tmp/trips"
