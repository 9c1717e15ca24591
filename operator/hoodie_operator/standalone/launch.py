"""The first program of every run: `python -m hoodie_operator.standalone.launch FOLDER PROGRAM...`.

It claims the run's folder by creating `process.json` with its own identity, which only one process
can, and then becomes the program. An operator that was killed between starting this and taking note
of it finds the file after its restart; one that finds none creates it itself, and this then ends
without having done anything. So no attempt is ever at work twice or unknown.
"""

import dataclasses
import json
import os
import sys

from hoodie import identity

NAME = "process.json"
EXIT_NOT_OURS = 75


def claim(folder: str, process: identity.ProcessIdentity | None) -> bool:
    """Create the file that says whose a run is; False when somebody else was first.

    Args:
        folder: The run's.
        process: Who does the work; None that nobody ever will.
    """
    content = None if process is None else dataclasses.asdict(process)
    partial = os.path.join(folder, f".{NAME}.{os.getpid()}")  # noqa: PTH118 - starts fast
    with open(partial, "w", encoding="utf-8") as file:  # noqa: PTH123 - starts fast
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(partial, os.path.join(folder, NAME))  # noqa: PTH118 - starts fast
    except FileExistsError:
        return False
    finally:
        os.unlink(partial)  # noqa: PTH108 - starts fast
    return True


def main(arguments: list[str]) -> int:
    """Claim the folder and become the program."""
    folder, *program = arguments
    if claim(folder, identity.current_process()):
        os.execv(program[0], program)  # noqa: S606 - the operator's own command, no shell
    return EXIT_NOT_OURS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
