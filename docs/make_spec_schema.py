"""Writes the JSON Schema of specs, `reference/spec.schema.json`, from the model."""

import json
from pathlib import Path

from holdfast.spec.model import json_schema

PAGE = Path(__file__).parent / "reference" / "spec.schema.json"

if __name__ == "__main__":
    PAGE.write_text(json.dumps(json_schema(), indent=2) + "\n")
