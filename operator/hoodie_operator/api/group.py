"""The name that the kinds live under: the only place that spells it."""

GROUP = "hudi.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

RETRY_REQUEST = f"{GROUP}/retry"
"""Annotation of an object: a new value of it asks for another attempt of what has failed."""
