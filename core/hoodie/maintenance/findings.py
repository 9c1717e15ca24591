"""What goes wrong after a commit: it has taken effect, so nothing that fails later fails it."""

import logging
from collections.abc import Callable

from hoodie import errors

logger = logging.getLogger(__name__)


def caught(what: str, findings: list[str], act: Callable[[], object]) -> None:
    """Do something; what it fails with becomes a finding.

    Args:
        what: What is so if it fails.
        findings: Gets the finding.
        act: Does it.
    """
    try:
        act()
    except errors.HoodieError as error:
        findings.append(f"{what}: {error}")
    except Exception as error:
        # Whatever it was: the write has taken effect, and its caller must learn that.
        logger.exception("%s", what)
        findings.append(f"{what}: {type(error).__name__}: {error}")
