"""Writes what of charts/hudi-operator follows from the code: its CRDs, and the schema of `config`.

The rest of values.schema.json is written by hand and kept.
"""

import json
from pathlib import Path
from typing import Any

from hoodie_operator.api import configuration, generate

CHART = Path(__file__).parents[1] / "charts" / "hudi-operator"
CRDS = CHART / "files" / "crds"
VALUES_SCHEMA = CHART / "values.schema.json"


def values_schema(before: str) -> str:
    """Return the schema of the chart's values.

    Args:
        before: What the file holds, of which all but the configuration's part stays.
    """
    schema: dict[str, Any] = json.loads(before)
    config = configuration.Configuration.model_json_schema(
        by_alias=True, mode="validation", ref_template="#/definitions/{model}"
    )
    schema["definitions"] = config.pop("$defs")
    schema["properties"]["config"] = config
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the files anew."""
    CRDS.mkdir(parents=True, exist_ok=True)
    definitions = generate.files()
    for path in CRDS.glob("*.yaml"):
        if path.name not in definitions:
            path.unlink()
    for name, content in definitions.items():
        (CRDS / name).write_text(content, encoding="utf-8")
    schema = values_schema(VALUES_SCHEMA.read_text(encoding="utf-8"))
    VALUES_SCHEMA.write_text(schema, encoding="utf-8")


if __name__ == "__main__":
    main()
