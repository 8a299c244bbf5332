"""Base models and adapters, loaded and described the one way all stages share.

Takes folders; returns models, tokenizers and PEFT settings. Reads those folders only.
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


def adapter(lora: Lora) -> LoraConfig:
    """LoRA on every linear layer but the output: an adapter there is tied to the embeddings and TRL refuses it."""
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        exclude_modules=["lm_head"],
        task_type="CAUSAL_LM",
    )
