"""
Configurations → what the loader of nemo-automodel 0.7.0 says of them.

    RUN_DIR=/runs/x python load_config.py A.yaml [B.yaml …]

Out: one JSON line a file on standard output, {"file", "ok", "error", "built"}; exit status 1 where a file is refused.
The real loader reads the file, fills in environment variables, resolves every `_target_` by importing it from the wheel, and builds
the typed objects of each section. torch and what builds on it are stand-ins (stand_ins.py): no model is made,
nothing runs. Reads those files only.
"""

import contextlib
import dataclasses
import enum
import functools
import json
import logging
import os
import sys
import warnings

# The wheel asks git for its version otherwise.
os.environ["NO_VCS_VERSION"] = "1"

import stand_ins  # noqa: E402

stand_ins.install()
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")

from nemo_automodel.cli.utils import resolve_recipe_name  # noqa: E402
from nemo_automodel.components.config.loader import load_yaml_config  # noqa: E402
from nemo_automodel.recipes._dist_utils import parse_distributed_section  # noqa: E402
from nemo_automodel.recipes._typed_config import RecipeConfig  # noqa: E402

SECTIONS = [
    *["step_scheduler", "lr_scheduler", "wandb", "checkpoint", "optimizer", "loss_fn", "freeze_config", "prewarm", "mfu"],
    *["dataloader", "validation_dataloaders"],
]


def fields(value):
    """A typed object's fields, as far as JSON carries them."""
    if isinstance(value, enum.Enum):
        return value.value
    # The loader's own kind of string remembers what it was filled in from.
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, dict):
        return {str(key): fields(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [fields(member) for member in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: fields(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, functools.partial):
        return {"function": fields(value.func), **fields(value.keywords)}
    return str(getattr(value, "__qualname__", value))


def load(path):
    """Builds what the recipe class would build before it makes a model; raises what the loader raises."""
    raw = load_yaml_config(path)
    config = RecipeConfig(raw)
    built = {"recipe": resolve_recipe_name(raw.recipe)}
    for name in SECTIONS:
        built[name] = fields(getattr(config, name))
    distributed = parse_distributed_section(raw.distributed.to_dict())
    built["distributed"] = {key: fields(value) for key, value in distributed.items()}
    # The recipe class instantiates this one itself.
    built["peft"] = fields(raw.peft.instantiate()) if raw.get("peft", None) is not None else None
    return built


def main(paths):
    refused = 0
    for path in paths:
        outcome = {"file": path, "ok": True, "error": None, "built": None}
        try:
            # The wheel prints what it could not instantiate; standard output is for our lines.
            with contextlib.redirect_stdout(sys.stderr):
                outcome["built"] = load(path)
        except Exception as error:  # noqa: BLE001: whatever the loader raises is its answer
            outcome.update(ok=False, error=f"{type(error).__name__}: {error}")
            refused += 1
        print(json.dumps(outcome), flush=True)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
