"""`hoodie heartbeats`: what is pending on a table, and whether anybody works on it."""

from hoodie import environment
from hoodie.cli import command, options, output, progress, run_settings, tables
from hoodie.cli.views import heartbeats as view
from hoodie.cli.views import remedies
from hoodie.model import results

DETAILS = """A heartbeat is beating, expired (silent for too long), proved dead (its process ran on
this machine and has ended) or missing. A write of Apache Hudi without a heartbeat counts as beating
while its files change. The expiry is --set hoodie.client.heartbeat.interval_in_ms times
hoodie.client.heartbeat.tolerable.misses, which must be equal for everything that writes the table.
"""


def heartbeats(
    uri: options.TableUri,
    *,
    set_texts: options.SetTexts = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what is pending on a table and who works on it."""
    run = run_settings.parse(uri, set_texts, None)
    with progress.Display() as display:
        opened = tables.open_table(uri, environment.system(), display)
        display.phase("reading heartbeats")
        found = opened.pending(run.settings)
    shown = view.document(opened.uri, found)
    if as_json:
        output.document(shown)
        return
    if not found:
        output.line("nothing is pending")
        return
    output.grid(view.grid(shown))
    for hint in remedies.hints(uri, _remedies(found)):
        output.note(f"hint: {hint}")


def _remedies(found: list[results.PendingInstant]) -> list[results.Remedy]:
    return [each.remedy for each in found if each.remedy is not None]


COMMAND = command.Command(
    run=heartbeats,
    details=DETAILS,
)
