"""Which command mends what was found."""

from collections.abc import Iterable

from hoodie.model import results

_COMMANDS = {
    results.Remedy.ROLL_BACK: (
        "rollback",
        "--all",
        "rolls back failed writes and deletes what they left",
    ),
    results.Remedy.COMPACT: ("compact", "", "executes the pending plans"),
    results.Remedy.CLEAN: ("clean", "", "finishes the pending cleans"),
    results.Remedy.BUILD_INDEX: (
        "index status",
        "",
        "shows the builds of indexes, and the command that continues them",
    ),
}


def hints(uri: str, remedies: Iterable[results.Remedy]) -> list[str]:
    """Return a line for each different remedy."""
    wanted = set(remedies)
    lines = []
    for remedy, (command, option, what) in _COMMANDS.items():
        if remedy in wanted:
            words = " ".join(word for word in ("hoodie", command, uri, option) if word)
            lines.append(f"`{words}` {what}")
    return lines
