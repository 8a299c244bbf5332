"""Make the quickstart's base model: `python tools/base-model/build.py --exclude TASK-SET.json`.

Takes a task set (schemas/task.ts) whose goals the pre-training must not contain, whatever split a task is in; writes
tools/base-model/quickstart-base (or --output): a Hugging Face model folder and build.json, which says how it was
made. Uses a scratch folder of its own. Same arguments, same library versions and one thread: same weights.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

HERE = Path(__file__).resolve().parent
FAMILY = HERE.parent.parent / "modules" / "tasks" / "repo-chores"


def load_tools(path: Path) -> ModuleType:
    """The family's tools.py as a module."""
    spec = importlib.util.spec_from_file_location("repo_chores_tools", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def excluded_goals(path: Path) -> frozenset[tuple[str, str, str]]:
    """The goals of all of a task set's tasks: a split may be drawn anew, the base is not made anew for it."""
    from chores import goal_of_prompt

    return frozenset(goal_of_prompt(task["prompt"]) for task in json.loads(path.read_text())["tasks"])


def main() -> None:
    """Read the arguments and build."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exclude", type=Path, required=True, help="task set whose goals are left out")
    parser.add_argument("--output", type=Path, default=HERE / "quickstart-base")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--copy-steps", type=int, default=800)
    parser.add_argument("--conversation-steps", type=int, default=500)
    parser.add_argument("--conversations", type=int, default=16000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument(
        "--copied", type=Path, help="folder that keeps the model after the copying phase, to go on from"
    )
    arguments = parser.parse_args()

    import torch
    from pretrain import learn_conversations, learn_to_copy, new_model
    from tokenizer import WORDS, build_tokenizer
    from transcripts import Workbench, transcript
    from transformers import Qwen3ForCausalLM
    from trl.chat_template_utils import get_training_chat_template

    torch.set_num_threads(1)
    started = time.time()
    excluded = excluded_goals(arguments.exclude)
    tools = json.loads((FAMILY / "family.json").read_text())["tools"]
    tokenizer = build_tokenizer(tools)
    words = [tokenizer(word)["input_ids"][0] for word in WORDS]
    if arguments.copied and arguments.copied.exists():
        model = Qwen3ForCausalLM.from_pretrained(arguments.copied, dtype=torch.float32).train()
    else:
        model = new_model(tokenizer, arguments.hidden, arguments.layers, arguments.seed)
        learn_to_copy(model, words, arguments.copy_steps, arguments.seed)
        if arguments.copied:
            model.save_pretrained(arguments.copied)
    print(f"{sum(value.numel() for value in model.parameters())} parameters, {len(tokenizer)} tokens", flush=True)

    template = get_training_chat_template(tokenizer)
    rng = random.Random(arguments.seed)
    examples = []
    scratch = Path(tempfile.mkdtemp(prefix="uplift-base-"))
    try:
        bench = Workbench(scratch / "repository", load_tools(FAMILY / "tools.py"))
        for _ in range(arguments.conversations):
            encoded = tokenizer.apply_chat_template(
                transcript(bench, rng, excluded),
                tools=tools,
                chat_template=template,
                return_dict=True,
                return_assistant_tokens_mask=True,
            )
            examples.append((encoded["input_ids"], encoded["assistant_masks"]))
    finally:
        shutil.rmtree(scratch)
    print(f"{len(examples)} conversations, {time.time() - started:.0f} s", flush=True)
    learn_conversations(
        model, examples, arguments.conversation_steps, arguments.batch, tokenizer.pad_token_id, arguments.seed
    )
    source = json.loads(arguments.exclude.read_text())["source"]
    save(model, tokenizer, arguments, {"taskSet": source, "goals": len(excluded)}, time.time() - started)


def save(model, tokenizer, arguments: argparse.Namespace, excluded: dict, seconds: float) -> None:  # noqa: ANN001
    """Write the model folder and how it was made."""
    import torch
    import transformers

    arguments.output.mkdir(parents=True, exist_ok=True)
    model.eval().save_pretrained(arguments.output)
    tokenizer.save_pretrained(arguments.output)
    record = {
        "description": "A purpose-made tiny model for repo-chores; see tools/base-model/README.md.",
        "parameters": sum(value.numel() for value in model.parameters()),
        "seed": arguments.seed,
        "copySteps": arguments.copy_steps,
        "conversationSteps": arguments.conversation_steps,
        "conversations": arguments.conversations,
        "batch": arguments.batch,
        "excluded": excluded,
        "seconds": round(seconds),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    (arguments.output / "build.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
