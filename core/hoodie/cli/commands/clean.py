"""`hoodie clean`: file versions that no reader needs any more are deleted."""

from typing import Annotated

import typer

from hoodie import environment
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import cleans
from hoodie.maintenance.cleaning import retention
from hoodie.transaction import authors

DETAILS = """A file version is deleted once a newer one has replaced it, if it is not needed by the
commits to keep, by a savepoint, by a pending instant, or by a reader within its grace. Failed
writes are rolled back and interrupted cleans are finished first. Time is the timeline's: a table
without new commits does not age.
"""
EXAMPLES = """Examples:

  hoodie clean /data/trips --dry-run
  hoodie clean /data/trips --keep-commits 20
  hoodie clean /data/trips --keep-hours 48 --grace 120
  hoodie clean /data/trips --keep-versions 2
"""

_MINUTE_MS = 60_000


def clean(  # noqa: PLR0913 - a parameter an option
    uri: options.TableUri,
    *,
    keep_commits: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Keep the newest N commits readable.",
            show_default=str(retention.DEFAULTS[retention.Policy.COMMITS]),
        ),
    ] = None,
    keep_hours: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Keep the last N hours readable.")
    ] = None,
    keep_versions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Keep N versions of each file group.")
    ] = None,
    grace: Annotated[
        int,
        typer.Option(
            metavar="MINUTES", min=0, help="Keep what was replaced so recently, for its readers."
        ),
    ] = 60,
    max_files: Annotated[
        int, typer.Option(metavar="N", min=1, help="Delete about N files at most.")
    ] = retention.Retention().files_max,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only show what would be deleted.")
    ] = False,
    lock: options.LockText = None,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Delete the file versions that no reader needs any more."""
    policy, retained = _policy(keep_commits, keep_hours, keep_versions)
    how = retention.Retention(
        policy=policy, retained=retained, grace_ms=grace * _MINUTE_MS, files_max=max_files
    )
    run = run_settings.parse_for_service(uri, set_texts, lock)
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        run_settings.check_facts(run.facts, opened.config)
        if is_dry_run:
            display.phase("looking for files to delete")
            shown = cleans.proposed(opened.uri, opened.propose_clean(how))
        else:
            display.phase("cleaning")
            shown = cleans.done(opened.uri, opened.clean(how, run.transaction(authors.Author())))
    if as_json:
        output.document(shown)
        return
    if shown.partitions:
        output.grid(cleans.grid(shown))
    for line in cleans.lines(shown):
        output.line(line)
    for finding in shown.findings:
        output.note(f"note: {finding}")


def _policy(
    commits: int | None, hours: int | None, versions: int | None
) -> tuple[retention.Policy, int]:
    given = {
        retention.Policy.COMMITS: commits,
        retention.Policy.HOURS: hours,
        retention.Policy.VERSIONS: versions,
    }
    chosen = [(policy, count) for policy, count in given.items() if count is not None]
    if len(chosen) > 1:
        raise typer.BadParameter(
            "expected at most one of --keep-commits, --keep-hours and --keep-versions"
        )
    default = retention.Retention()
    return chosen[0] if chosen else (default.policy, default.retained)


COMMAND = command.Command(
    run=clean,
    details=DETAILS,
    examples=EXAMPLES,
)
