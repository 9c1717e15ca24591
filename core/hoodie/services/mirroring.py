"""Mirroring a table in Iceberg, once PyIceberg is there: it is imported by the first mirror."""

import importlib

from hoodie import environment, errors
from hoodie.services.mirrors import values
from hoodie.transaction import manager

EXTRA = "iceberg"


def mirror(
    target: manager.Target,
    options: values.Options,
    env: environment.Environment,
    *,
    is_dry_run: bool = False,
) -> values.Mirrored:
    """Bring a mirror up to date, or make it, as `mirrors.service.mirror`.

    Raises:
        ConfigurationError: PyIceberg is not installed; and as there.
        HoodieError: As there.
    """
    try:
        service = importlib.import_module("hoodie.services.mirrors.service")
    except ImportError as error:
        raise errors.ConfigurationError(
            f"a mirror is written by PyIceberg: pip install 'hudi-operator[{EXTRA}]' ({error})"
        ) from error
    done: values.Mirrored = service.mirror(target, options, env, is_dry_run=is_dry_run)
    return done
