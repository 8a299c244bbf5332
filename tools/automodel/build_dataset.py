"""
Configurations → the samples that nemo-automodel 0.7.0 would train on, made by its own code.

    RUN_DIR=/runs/x PYTHONPATH=/runs/x/slurm python build_dataset.py PACKAGES A.yaml [B.yaml …]

In: PACKAGES, the folder of packages in the environment that tools/python-env.sh makes of this folder; python is one that has torch
and transformers. Out: a JSON line a file on standard output, {"file", "said", "error", "samples"}: what was printed meanwhile,
what was raised, and for each sample its "text", the "tokens" of it, and the texts that are "trained" on. torchdata, whose
loader only hands samples out, is a stand-in, and torch's own takes its place.
"""

import contextlib
import io
import itertools
import json
import os
import sys

# The wheel asks git for its version otherwise.
os.environ["NO_VCS_VERSION"] = "1"

import stand_ins  # noqa: E402

# All else is there. Here, not below: the loader's processes import this file too.
stand_ins.LIBRARIES = frozenset(["torchdata", "torchao"])
stand_ins.install()


def samples(path):
    """What the recipe class does on its way to batches: recipes/llm/train_ft.py."""
    from torch.utils.data import DataLoader

    from nemo_automodel.components.config.loader import load_yaml_config
    from nemo_automodel.recipes._typed_config import RecipeConfig
    from nemo_automodel.recipes.llm.train_ft import _build_tokenizer

    config = RecipeConfig(load_yaml_config(path))
    _, tokenizer = _build_tokenizer(config.model, config.dataset)
    loader = config.dataloader
    dataset = loader._build_dataset(tokenizer=tokenizer, dataset_build_context=None)
    # Started as Automodel starts them.
    context = "spawn" if loader.num_workers > 0 else None
    batches = DataLoader(
        *(dataset, loader.batch_size),
        **{"collate_fn": loader.collate_fn, "num_workers": loader.num_workers, "multiprocessing_context": context},
    )
    return [
        described(tokenizer, ids[: sum(kept)], labels[: sum(kept)])
        for batch in batches
        for ids, labels, kept in zip(*(batch[key].tolist() for key in ("input_ids", "labels", "attention_mask")))
    ]


def described(tokenizer, ids, labels):
    # A label is the token after its input: the last token is no input.
    runs = [list(run) for trained, run in itertools.groupby(labels, lambda label: label != -100) if trained]
    return {"text": tokenizer.decode(ids), "tokens": len(ids) + 1, "trained": [tokenizer.decode(run) for run in runs]}


def main(packages, paths):
    sys.path.append(packages)
    for path in paths:
        outcome = {"file": path, "error": None, "samples": None}
        with contextlib.redirect_stdout(io.StringIO()) as said:
            try:
                outcome["samples"] = samples(path)
            except Exception as error:  # noqa: BLE001: whatever is raised is the answer
                outcome["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps({**outcome, "said": said.getvalue()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
