"""The trainer's command line: `python -m uplift_trl COMMAND`.

Takes arguments; exits 0 when done, 2 for a configuration that cannot run, 75 when the infrastructure failed and the
same command will go on from the last complete checkpoint, 1 for anything else. The only file here that reads the
command line or sets the process's environment.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from .config import ConfigError, read_rl, read_sft
from .without_vllm import hide_vllm

INFRASTRUCTURE_FAILED = 75
"""Exit code (EX_TEMPFAIL of sysexits.h)."""

EXAMPLES = """examples:
  python -m uplift_trl sft --config sft.json --output run/sft
  python -m uplift_trl rl --config rl.json --output run/rl
  python -m uplift_trl merge --base BASE --adapter run/sft/checkpoints/step-60 --output merged \\
      --probe-conversations probe.json
  python -m uplift_trl adopt --base BASE --trained run/sft/checkpoints/step-60 --output model \\
      --probe-conversations probe.json
  python -m uplift_trl import --model BASE --output imported --probe-conversations probe.json
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="uplift_trl", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("sft", "supervised fine-tuning on trajectories"), ("rl", "GRPO on tasks of the environment")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--config", type=Path, required=True, help="the stage's JSON")
        command.add_argument("--output", type=Path, required=True, help="folder of metrics and checkpoints")
    for name, folders, text in (
        ("merge", ("--base", "--adapter"), "base and adapter to a full, verified model"),
        ("adopt", ("--base", "--trained"), "a checkpoint of all weights to a full model, verified against its base"),
        ("import", ("--model",), "a base model as it is, with its probe"),
    ):
        command = commands.add_parser(name, help=text)
        for folder in (*folders, "--output"):
            command.add_argument(folder, type=Path, required=True)
        command.add_argument("--probe-conversations", type=Path, required=True, help="JSON list of {messages, tools}")
    return parser


def _quiet(threads: int) -> None:
    """Set what libraries read when they are imported: threads, no look-ups on the network, no advice."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        os.environ[name] = "1"
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _run(arguments: argparse.Namespace) -> int:
    match arguments.command:
        case "sft":
            sft_config = read_sft(arguments.config)
            _quiet(sft_config.threads)
            hide_vllm()
            from .sft import train as train_sft

            train_sft(sft_config, arguments.output)
        case "rl":
            rl_config = read_rl(arguments.config)
            _quiet(rl_config.threads)
            hide_vllm()
            from .rl import train as train_rl
            from .rollouts import InfrastructureFailed

            try:
                train_rl(rl_config, arguments.output)
            except InfrastructureFailed as failed:
                print(f"stopped: {failed}. The same command goes on from the last checkpoint.", file=sys.stderr)
                return INFRASTRUCTURE_FAILED
        case "merge":
            _quiet(1)
            from .merge import merge

            merge(arguments.base, arguments.adapter, arguments.output, arguments.probe_conversations)
        case "adopt":
            _quiet(1)
            from .merge import adopt

            adopt(arguments.base, arguments.trained, arguments.output, arguments.probe_conversations)
        case "import":
            _quiet(1)
            from .merge import import_base

            import_base(arguments.model, arguments.output, arguments.probe_conversations)
    return 0


def main() -> int:
    """Run one command; its exit code."""
    # A cancelled job must still end its attempts: turn the signal into an exception.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return _run(_parser().parse_args())
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
