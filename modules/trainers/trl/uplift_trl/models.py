"""Base models and adapters, loaded and described the one way all stages share.

Takes folders and a stage's configuration; returns models, tokenizers, PEFT settings, and the arguments of TRL's
trainers that both stages share. Reads those folders only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, set_seed
from transformers.utils import logging

from .config import Common, Lora

# A job's log is read by people and by the controller: lines, no progress bars.
logging.disable_progress_bar()


def prepare(config: Common) -> None:
    """Threads and seeds, before anything is drawn."""
    torch.set_num_threads(config.threads)
    set_seed(config.seed)


def load_model(folder: Path) -> PreTrainedModel:
    """A causal model in float32."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def load_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer."""
    return AutoTokenizer.from_pretrained(folder)


def adapter(lora: Lora | None) -> LoraConfig | None:
    """LoRA on every linear layer but the output: an adapter there is tied to the embeddings and TRL refuses it."""
    return lora and LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        exclude_modules=["lm_head"],
        task_type="CAUSAL_LM",
    )


def shared_arguments(config: Common, output: Path) -> dict[str, Any]:
    """The arguments of TRL's trainers that mean the same in both stages; the recorder saves and logs."""
    return {
        "output_dir": str(output),
        "max_steps": config.steps,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": {"cosine": "cosine", "constant": "constant_with_warmup"}[config.schedule],
        "warmup_steps": config.warmup_steps,
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.max_grad_norm,
        "logging_steps": 1,
        "save_strategy": "no",
        "save_steps": config.save_every_steps,
        "seed": config.seed,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "dataloader_pin_memory": False,
        "disable_tqdm": True,
    }
