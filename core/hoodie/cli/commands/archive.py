"""`hoodie archive`: old instants are moved out of the active timeline."""

from dataclasses import replace
from typing import Annotated

import typer

from hoodie import environment, errors
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import archives
from hoodie.maintenance.archiving import planning
from hoodie.model import results
from hoodie.transaction import authors

DETAILS = """Each commit lists the files of the active timeline, so that a long one is slow.
Archiving moves the oldest completed instants into .hoodie/timeline/history, where
`hoodie timeline URI --archived` shows them. Nothing that a reader sees changes.

With --keep-history DAYS, history that is older is deleted: whole files of it, once no read, clean
or savepoint of the table looks anything up in them. The age is measured to the newest commit.
"""
EXAMPLES = """Examples:

  hoodie archive /data/trips --dry-run
  hoodie archive /data/trips
  hoodie archive /data/trips --keep-min 50 --keep-max 100
  hoodie archive /data/trips --keep-history 365 --dry-run

Pending writes, savepoints and replace commits that are not cleaned hold later instants back. Orphan
files of ended instants are deleted first, as by `hoodie rollback --all`.
"""


def archive(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    *,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only show what would be archived.")
    ] = False,
    keep_min: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Leave N commits ({planning.MIN_KEY}).", show_default="20"),
    ] = None,
    keep_max: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help=f"Archive nothing while there are at most N commits ({planning.MAX_KEY}).",
            show_default="30",
        ),
    ] = None,
    keep_history: Annotated[
        int | None,
        typer.Option(
            metavar="DAYS",
            min=planning.HISTORY_DAYS_MIN,
            help="Delete archived instants that are older.",
            show_default="for ever",
        ),
    ] = None,
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Archive old instants of a table."""
    given, others = _split(set_texts)
    policy = replace(_policy(given, keep_min, keep_max), history_days=keep_history)
    run = run_settings.parse_for_service(uri, others, lock)
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        if is_dry_run:
            display.phase("planning")
            plan = opened.preview_archive(policy)
            shown = archives.document(
                opened.uri,
                results.ArchiveResult(
                    archived=plan.chosen,
                    trimmed=plan.trimmed,
                    holds=tuple(each.text for each in plan.holds),
                ),
                is_dry_run=True,
            )
        else:
            display.phase("archiving")
            done = opened.archive(run.transaction(authors.Author()), policy)
            shown = archives.document(opened.uri, done, is_dry_run=False)
    if as_json:
        output.document(shown)
        return
    for line in archives.lines(shown):
        output.line(line)


def _split(set_texts: list[str] | None) -> tuple[dict[str, str], list[str]]:
    """Return the settings of archiving that `--set` gives, and the other texts."""
    given = options.properties(set_texts)
    own = {key: value for key, value in given.items() if key in planning.FIELDS}
    others = [
        text for text in set_texts or () if text.partition("=")[0].strip() not in planning.FIELDS
    ]
    return own, others


def _policy(given: dict[str, str], keep_min: int | None, keep_max: int | None) -> planning.Policy:
    """Return the policy that options and settings name."""
    for option, key, value in (
        ("--keep-min", planning.MIN_KEY, keep_min),
        ("--keep-max", planning.MAX_KEY, keep_max),
    ):
        if value is None:
            continue
        if key in given:
            raise errors.ConfigurationError(
                f"{option} {value} with --set {key}={given[key]}: expected one of them"
            )
        given = {**given, key: str(value)}
    policy = planning.policy_of(given)
    policy.check()
    return policy


COMMAND = command.Command(
    run=archive,
    details=DETAILS,
    examples=EXAMPLES,
)
