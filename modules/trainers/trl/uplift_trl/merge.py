"""Base + adapter, or base + trained weights → a full, verified model; or a base as it is. All with the rendering probe.

Takes folders; writes the output folder whole or not at all. Nothing is written that cannot be checked: same tensors as
the base, every number finite, what an adapter targets changed and nothing else.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig, PeftModel
from safetensors.torch import load_file

from .config import ConfigError
from .files import list_files, whole_folder
from .models import load_model, load_tokenizer
from .rendering import PROBE, write_probe


class MergeError(Exception):
    """A merged model that is not what base and adapter say it must be."""


def merge(base: Path, adapter: Path, output: Path, conversations: Path) -> None:
    """Merge, verify, and write the model, its tokenizer and its probe."""
    tokenizer = load_tokenizer(base)
    with whole_folder(output) as folder:
        model = PeftModel.from_pretrained(load_model(base), str(adapter)).merge_and_unload(safe_merge=True)
        model.save_pretrained(folder)
        _copy_what_is_not_weights(base, folder)
        verify(tensors(base), tensors(folder), targeted(adapter))
        write_probe(tokenizer, conversations, folder)


def adopt(base: Path, trained: Path, output: Path, conversations: Path) -> None:
    """Verify a checkpoint that has all weights, and write it with its base's configuration, tokenizer and a probe."""
    tokenizer = load_tokenizer(base)
    with whole_folder(output) as folder:
        for path in sorted(trained.glob("*.safetensors*")):
            shutil.copyfile(path, folder / path.name)
        # Not the trainer's: that one has special tokens set for training.
        load_model(base).config.save_pretrained(folder)
        _copy_what_is_not_weights(base, folder)
        verify_same(tensors(base), tensors(folder))
        write_probe(tokenizer, conversations, folder)


def import_base(base: Path, output: Path, conversations: Path) -> None:
    """Copy a base model's folder, and write its probe."""
    tokenizer = load_tokenizer(base)
    _finite(tensors(base))
    with whole_folder(output) as folder:
        shutil.copytree(base, folder, dirs_exist_ok=True)
        write_probe(tokenizer, conversations, folder)


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a model's safetensors files by name."""
    found: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    if not found:
        raise ConfigError(f"{folder}: no safetensors file")
    return found


def targeted(adapter: Path) -> set[str]:
    """The names of the base's tensors that the adapter changes, of those whose change is not zero."""
    weights = load_file(adapter / "adapter_model.safetensors")
    prefix, down, up = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
    modules = {name.removeprefix(prefix).removesuffix(down) for name in weights if name.endswith(down)}
    if not modules:
        raise ConfigError(f"{adapter}: no LoRA weights (type {PeftConfig.from_pretrained(str(adapter)).peft_type})")
    return {f"{module}.weight" for module in modules if torch.any(weights[f"{prefix}{module}{up}"] != 0)}


def verify_same(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> None:
    """Raise MergeError, naming tensors, where names or shapes are not the base's or a number is not finite."""
    if before.keys() != after.keys():
        raise MergeError(f"tensors differ in name: {sorted(before.keys() ^ after.keys())[:5]}")
    shapes = [name for name in before if before[name].shape != after[name].shape]
    if shapes:
        raise MergeError(f"tensors differ in shape: {shapes[:5]}")
    _finite(after)


def verify(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor], changed: set[str]) -> None:
    """Raise MergeError, naming tensors, where the merged model is not as it must be."""
    verify_same(before, after)
    unknown = changed - before.keys()
    if unknown:
        raise MergeError(f"the adapter targets tensors that the base has not: {sorted(unknown)[:5]}")
    wrong = [name for name in before if torch.equal(before[name].float(), after[name].float()) == (name in changed)]
    if wrong:
        raise MergeError(f"tensors that should have changed and have not, or the other way round: {wrong[:5]}")


def _finite(weights: dict[str, torch.Tensor]) -> None:
    broken = [name for name, value in weights.items() if not torch.isfinite(value).all()]
    if broken:
        raise MergeError(f"tensors with numbers that are not finite: {broken[:5]}")


def _copy_what_is_not_weights(base: Path, folder: Path) -> None:
    """Tokenizer, template and generation settings as the base has them, byte for byte."""
    for path in list_files(base):
        own = path.name in {"config.json", "build.json", PROBE} or "safetensors" in path.name
        if not own and path.parent == base:
            shutil.copyfile(path, folder / path.name)


def read_probe(folder: Path) -> list[dict[str, Any]]:
    """The cases of a model's rendering probe."""
    return json.loads((folder / PROBE).read_text())["cases"]
