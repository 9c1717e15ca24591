"""Finding the API server: the account of our pod, or a kubeconfig.

A kubeconfig that runs a program for its token (`exec`) is taken where Kopf finds a client library
that can: install `kubernetes` or `kubernetes_asyncio` beside the operator.
"""

import logging

import kopf
import yaml

from hoodie import errors

logger = logging.getLogger(__name__)


def connection() -> kopf.ConnectionInfo:
    """Return the way to the API server, its credentials read anew.

    Raises:
        InvalidInputError: There is neither an account nor a kubeconfig, or what there is leads
            nowhere.
    """
    try:
        found = _found()
        if found is not None:
            # A kubeconfig may hold anything for a certificate.
            found.as_ssl_context()
    except _UNUSABLE as error:
        told = " ".join(str(error).split()) or type(error).__name__
        raise errors.InvalidInputError(
            f"the account or kubeconfig cannot be used: {told}"
        ) from error
    if found is None:
        raise errors.InvalidInputError(
            "no way to an API server is known, expected to run in a pod with an account, "
            "or KUBECONFIG, or ~/.kube/config"
        )
    # What listens on this machine alone may be a proxy that asks for none.
    has_credentials = bool(
        found.token or found.username or found.certificate_path or found.certificate_data
    )
    if not has_credentials and not found.server.startswith("http://"):
        raise errors.InvalidInputError(
            f"the kubeconfig has no credentials for {found.server} that can be used, expected a "
            "token, a certificate or a name (a program that gives them needs the package "
            "kubernetes)"
        )
    return found


def _found() -> kopf.ConnectionInfo | None:
    settings = kopf.OperatorSettings()
    settings.networking.trust_env = True
    found = kopf.login_with_service_account(settings=settings)
    if found is None:
        found = kopf.login_via_client(logger=logger, settings=settings)
    if found is None:
        found = kopf.login_with_kubeconfig(settings=settings)
    return found


_UNUSABLE = (
    OSError,
    kopf.LoginError,
    yaml.YAMLError,
    # What has another shape than a kubeconfig.
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
)
