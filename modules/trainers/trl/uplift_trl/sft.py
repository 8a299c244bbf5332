"""Supervised fine-tuning: trajectories → checkpoints of an adapter or of all weights, by TRL's SFTTrainer.

Takes a SftConfig and an output folder; reads the model and the trajectories, writes metrics and checkpoints.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers.trainer_callback import PrinterCallback
from trl import SFTConfig, SFTTrainer
from trl.chat_template_utils import get_training_chat_template

from .config import ConfigError, SftConfig
from .models import adapter, load_model, load_tokenizer, prepare, shared_arguments
from .recorder import Recorder, Stage
from .rendering import Example, example


def read_examples(tokenizer: Any, trajectories: Path, max_tokens: int) -> tuple[list[Example], int]:
    """Every trajectory as an example, and how many were too long to be one."""
    template = get_training_chat_template(tokenizer) or tokenizer.chat_template
    examples, too_long = [], 0
    for number, line in enumerate(trajectories.read_text().splitlines(), start=1):
        try:
            trajectory = json.loads(line)
            rendered = example(tokenizer, template, trajectory["messages"], trajectory["tools"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{trajectories}:{number}: not a trajectory: {error!r}") from error
        if len(rendered.input_ids) > max_tokens:
            too_long += 1
        else:
            examples.append(rendered)
    if not examples:
        raise ConfigError(f"{trajectories}: no trajectory of at most {max_tokens} tokens ({too_long} are longer)")
    return examples, too_long


def train(config: SftConfig, output: Path) -> None:
    """Train from the last complete checkpoint, or from the base, to the last step."""
    stage = Stage(output, "sft", config.steps)
    if stage.finished:
        stage.end()
        return
    prepare(config)
    tokenizer = load_tokenizer(config.model)
    examples, too_long = read_examples(tokenizer, config.trajectories, config.max_tokens)
    stage.start(trajectories=len(examples), trajectoriesTooLong=too_long)
    arguments = SFTConfig(
        **shared_arguments(config, stage.trainer_folder),
        per_device_train_batch_size=config.batch_size,
        max_length=config.max_tokens,
    )
    recorder = Recorder(stage)
    trainer = SFTTrainer(
        model=load_model(config.model),
        args=arguments,
        # Tokens, not messages: a table of nested messages pads tool-call arguments with null keys.
        train_dataset=Dataset.from_list([{"input_ids": one.input_ids, "labels": one.labels} for one in examples]),
        processing_class=tokenizer,
        peft_config=adapter(config.lora),
        callbacks=[recorder],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(stage.resume.path) if stage.resume else None)
    stage.end()
