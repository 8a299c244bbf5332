"""Completes and verifies a converted checkpoint. Comes in: its folder, the model it was trained from, settings for its
config.json. Goes out: the same folder with the plan's settings, the start model's tokenizer and uplift-manifest.json;
or one sentence on stderr for everything that is wrong, and exit status 1. Writes only that folder. Python alone.

Converters fail in silence: adapters were dropped (NVIDIA-NeMo/RL issue 2190), partial weights load with strict off, and
no converter carries a RoPE block into config.json. So names, shapes and bytes are compared with the start model's.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path

MANIFEST = "uplift-manifest.json"
INDEX = "model.safetensors.index.json"
# The format's own bound on its header, bytes.
MOST_HEADER = 100_000_000
BITS = {
    **{"F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16},
    **{"I8": 8, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4},
}
# What turns messages into tokens and back. No stage changes it: every checkpoint has the start model's, byte by byte.
COMPANIONS = re.compile(
    r"(tokenizer.*|vocab.*|merges\.txt|special_tokens_map\.json|added_tokens\.json|chat_template.*|.*\.tiktoken"
    r"|(video_)?preprocessor_config\.json|processor_config\.json|generation_config\.json)"
)
# Linear layers of a language model: what both adapters and full training change. Vision towers have blocks, not layers.
TRAINED = re.compile(r"^(?!.*(visual|vision)).*\blayers\.\d+\..*proj\w*\.weight$")
SAMPLES = 8
CHUNK = 1 << 24


class Broken(Exception):
    """What is wrong, a sentence."""


def read_json(path):
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Broken(f"{path} is missing") from None
    except (OSError, ValueError) as error:
        raise Broken(f"{path} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise Broken(f"{path} is no JSON object")
    return value


def read_shard(path):
    """Tensor name -> (dtype, shape, first byte, end) in a safetensors file that is whole."""
    try:
        size = path.stat().st_size
    except OSError:
        raise Broken(f"the shard {path} is missing") from None
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, MOST_HEADER):
            raise Broken(f"{path} is cut off: {size} bytes, its header alone should have {length}")
        try:
            header = json.loads(file.read(length))
            entries = [(name, entry) for name, entry in header.items() if name != "__metadata__"]
            tensors = {
                name: (entry["dtype"], tuple(entry["shape"]), *(8 + length + int(at) for at in entry["data_offsets"]))
                for name, entry in entries
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Broken(f"{path} has a header that cannot be read: {error}") from None
    for name, (dtype, shape, begin, end) in tensors.items():
        if dtype not in BITS:
            raise Broken(f"{path}: {name} has the unknown type {dtype}")
        if (end - begin) * 8 != prod(shape) * BITS[dtype]:
            raise Broken(f"{path}: {name} is {dtype} of shape {list(shape)}, which {end - begin} bytes do not hold")
    whole = max((end for *_, end in tensors.values()), default=8 + length)
    if size != whole:
        raise Broken(f"{path} is {'cut off' if size < whole else 'too long'}: {size} bytes, its header says {whole}")
    return tensors


def read_tensors(folder, problems):
    """Tensor name -> (dtype, shape, first byte, end, file) of a model's folder; adds what is wrong with it."""
    index = folder / INDEX
    if index.exists():
        places = read_json(index).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise Broken(f"{index} lists no tensors")
        outside = sorted({str(shard) for shard in places.values() if Path(str(shard)).name != shard})
        if outside:
            raise Broken(f"{index} names shards outside its folder: {some(outside)}")
    else:
        places = None
    listed = sorted(set(places.values())) if places else ["model.safetensors"]
    unlisted = sorted(path.name for path in folder.glob("*.safetensors") if path.name not in listed)
    if unlisted:
        problems.append(f"{folder} has shards that its index does not list: {some(unlisted)}")
    tensors = {}
    for shard in listed:
        try:
            held = read_shard(folder / shard)
        except Broken as error:
            problems.append(str(error))
            continue
        for name, entry in held.items():
            if places is None or places.get(name) == shard:
                tensors[name] = (*entry, folder / shard)
            else:
                place = places.get(name, "no shard")
                problems.append(f"{folder / shard} holds {name}, which the index places in {place}")
        lost = sorted(name for name, place in (places or {}).items() if place == shard and name not in held)
        if lost:
            problems.append(f"{folder / shard} lacks {len(lost)} tensors that the index places there: {some(lost)}")
    return tensors


def some(names):
    shown = ", ".join(list(names)[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def compare(tensors, start, may_lack):
    """What differs from the start model and must not."""
    lost = sorted(name for name in start if name not in tensors and not name.startswith(may_lack))
    if lost:
        yield f"{len(lost)} of the start model's {len(start)} tensors are missing: {some(lost)}"
    added = sorted(name for name in tensors if name not in start)
    if added:
        yield f"{len(added)} tensors are not the start model's: {some(added)}"
    both = sorted(name for name in tensors if name in start)
    bent = [name for name in both if tensors[name][1] != start[name][1]]
    if bent:
        yield f"{len(bent)} tensors have another shape than in the start model: {some(bent)}"
    trained = [name for name in both if TRAINED.match(name) and name not in bent and not name.startswith(may_lack)]
    if not trained:
        yield "no linear layer of the language model was found, so nothing shows that training is in it"
        return
    # Evenly over the sorted names, the first and the last among them.
    sample = trained
    if len(trained) > SAMPLES:
        sample = [trained[at * (len(trained) - 1) // (SAMPLES - 1)] for at in range(SAMPLES)]
    other = [name for name in sample if tensors[name][0] != start[name][0]]
    if other:
        name = other[0]
        yield f"{name} is {tensors[name][0]}, and {start[name][0]} in the start model: the dtype must stay"
    elif all(same_bytes(tensors[name], start[name]) for name in sample):
        same = f"{len(sample)} linear layers have the start model's bytes (adapters dropped?): {some(sample)}"
        yield f"nothing was trained: {same}"


def same_bytes(one, other):
    left = one[3] - one[2]
    with one[4].open("rb") as first, other[4].open("rb") as second:
        first.seek(one[2])
        second.seek(other[2])
        while left > 0:
            size = min(left, CHUNK)
            if first.read(size) != second.read(size):
                return False
            left -= size
    return True


def set_config(config, settings):
    """Lays the plan's settings over config.json. Older spellings of a RoPE block go: readers prefer them."""
    for key, value in settings.items():
        if key == "rope_parameters":
            config.pop("rope_scaling", None)
            config.pop("rope_theta", None)
        if isinstance(value, dict) and isinstance(config.get(key), dict) and key != "rope_parameters":
            set_config(config[key], value)
        else:
            config[key] = value


def rotary(config):
    """Base, method and factor of the rotary positions, however they are spelt."""
    model = config["text_config"] if isinstance(config.get("text_config"), dict) else config
    block = model.get("rope_scaling") or model.get("rope_parameters") or {}
    method = block.get("rope_type", block.get("type", "default"))
    return (block.get("rope_theta", model.get("rope_theta")), method, block.get("factor"))


def check_config(folder, start, settings):
    config = read_json(folder / "config.json")
    own = read_json(start / "config.json")
    if config.get("architectures") != own.get("architectures"):
        raise Broken(f"config.json is of {config.get('architectures')}, the start model is {own.get('architectures')}")
    if settings:
        set_config(config, settings)
        write(folder / "config.json", config)
    elif rotary(config) != rotary(own):
        raise Broken(f"config.json has rotary positions {rotary(config)}, the start model has {rotary(own)}")


def copy_companions(folder, start):
    own = sorted(path.name for path in start.iterdir() if path.is_file() and COMPANIONS.fullmatch(path.name))
    has = any(name in own for name in ("tokenizer.json", "tokenizer.model", "vocab.json"))
    if "tokenizer_config.json" not in own or not has:
        raise Broken(f"the start model {start} has no tokenizer to copy: {some(own) or 'nothing of it'} is there")
    for path in sorted(folder.iterdir()):
        if path.is_file() and COMPANIONS.fullmatch(path.name):
            path.unlink()
    for name in own:
        shutil.copyfile(start / name, folder / name)


def write(path, value):
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def described(folder, path):
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return {"path": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def write_manifest(model, output, checkpoint, tensors, lacks):
    """Lists a whole model in `output`: every file with its SHA-256. As everywhere, names with a dot are no part of it."""
    paths = sorted(
        path
        for path in model.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(model).parts)
    )
    with ThreadPoolExecutor(8) as pool:
        files = list(pool.map(lambda path: described(model, path), paths))
    manifest = {"schemaVersion": 1, "checkpoint": checkpoint, "tensors": len(tensors), "lacks": lacks, "files": files}
    write(output / MANIFEST, manifest)


def finish(options):
    """Sentences on what is wrong; none once the manifest is written."""
    folder, start = Path(options.folder), Path(options.start)
    may_lack = tuple(options.may_lack.split(",")) if options.may_lack else ()
    problems = []
    for step in (
        lambda: check_config(folder, start, json.loads(options.config)),
        lambda: copy_companions(folder, start),
    ):
        try:
            step()
        except Broken as error:
            problems.append(str(error))
    found = {}
    for what in (folder, start):
        try:
            found[what] = read_tensors(what, problems)
        except Broken as error:
            problems.append(str(error))
    # Names are compared where both could be read whole: else every tensor of a lost shard would be told twice.
    if not problems:
        problems.extend(compare(found[folder], found[start], may_lack))
    if problems:
        return problems
    lacks = sorted(name for name in found[start] if name not in found[folder])
    write_manifest(folder, folder, options.checkpoint, found[folder], lacks)
    return []


def main():
    parser = argparse.ArgumentParser(description="Completes and verifies a converted checkpoint.")
    parser.add_argument("--folder", required=True, help="the converted model; written to")
    parser.add_argument("--start", required=True, help="the model it was trained from; only read")
    parser.add_argument("--checkpoint", required=True, help="its name, e.g. sft-40")
    parser.add_argument("--config", default="{}", help="JSON laid over config.json")
    parser.add_argument("--may-lack", default="", help="prefixes of the start model's tensors that need not be there")
    options = parser.parse_args()
    problems = finish(options)
    for problem in problems:
        print(f"uplift: {options.checkpoint}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
