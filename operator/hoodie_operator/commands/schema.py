"""`hudi-operator schema`: what editors check manifests by."""

import json
import sys

from hoodie_operator.api import schemas


def schema() -> None:
    """Print the JSON schema of manifests, for editors.

    Editors with a YAML language server check and complete manifests by it that begin with
    `# yaml-language-server: $schema=hudi.schema.json`.
    """
    sys.stdout.write(json.dumps(schemas.for_editors(), indent=1) + "\n")
