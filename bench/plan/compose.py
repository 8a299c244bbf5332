"""Composes and validates NeMo-RL YAML files the way its own users do: OmegaConf, then a check of the result.

Takes a folder with base.yaml, overrides-NNNN.yaml and schema.json; prints one JSON object with seconds and megabytes.
Reads that folder only. Composing is what NeMo-RL's load_config does (load, merge, resolve, to plain data); its own
MasterConfig needs its checkout, so the result is validated against the same JSON Schema that Uplift uses.
"""

import json
import resource
import sys
import time
from pathlib import Path

import fastjsonschema
from omegaconf import OmegaConf


def main(folder: Path) -> None:
    validate = fastjsonschema.compile(json.loads((folder / "schema.json").read_text())["$defs"]["grpo"])
    files = sorted(folder.glob("overrides-*.yaml"))
    broken = OmegaConf.to_container(OmegaConf.load(folder / "base.yaml"))
    broken["policy"]["precision"] = "bf16"
    try:
        validate(broken)
    except fastjsonschema.JsonSchemaException:
        pass
    else:
        raise SystemExit("the schema lets a bad value pass: nothing would be measured")
    compose_seconds = validate_seconds = 0.0
    for file in files:
        started = time.perf_counter()
        config = OmegaConf.merge(OmegaConf.load(folder / "base.yaml"), OmegaConf.load(file))
        OmegaConf.resolve(config)
        plain = OmegaConf.to_container(config)
        composed = time.perf_counter()
        validate(plain)
        validate_seconds += time.perf_counter() - composed
        compose_seconds += composed - started
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "files": len(files),
                "composeSeconds": compose_seconds,
                "validateSeconds": validate_seconds,
                "peakMib": peak_mib,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
