"""`hoodie check`: whether everything that must hold of a table does."""

from hoodie import environment, errors
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import findings, remedies

DETAILS = """Each finding is one line: what is wrong, and where. The exit code is 1 if there are
findings, else 0. Notes do not count as findings; a write in progress with a fresh heartbeat, for
example, is a note.

Of a table with a metadata table it reads what that has statistics of, and if it has a record index
the keys of all rows: as long as `hoodie metadata validate`.
"""


def check(
    uri: options.TableUri,
    *,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> int:
    """Check every invariant of a table and its timeline."""
    run = run_settings.parse(uri, set_texts, None)
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        display.phase("checking")
        run_settings.check_facts(run.facts, opened.config)
        shown = findings.document(opened.uri, opened.check(run.settings))
    if as_json:
        output.document(shown)
    else:
        for line in findings.lines(shown):
            output.line(line)
        output.note(findings.summary(shown))
        everything = (*shown.findings, *shown.notes)
        wanted = [each.remedy for each in everything if each.remedy is not None]
        for hint in remedies.hints(uri, wanted):
            output.note(f"hint: {hint}")
    return errors.EXIT_FINDINGS if shown.findings else errors.EXIT_DONE


COMMAND = command.Command(
    run=check,
    details=DETAILS,
)
