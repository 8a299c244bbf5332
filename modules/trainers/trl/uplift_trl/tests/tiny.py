"""A random Qwen3 model with a byte tokenizer, small enough to make for every test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_instruct_2507_chat_template

SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Find lines.",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The text."}},
            "required": ["text"],
        },
    },
}
EDIT = {
    "type": "function",
    "function": {
        "name": "edit",
        "description": "Replace a line.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "The file."}},
            "required": ["path"],
        },
    },
}
TOOLS = [EDIT, SEARCH]


def call(name: str, arguments: str) -> dict[str, Any]:
    """An assistant message with one tool call."""
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


CONVERSATION = [
    {"role": "user", "content": "Set port to 42 in every file."},
    call("search", '{"text":"port"}'),
    {"role": "tool", "tool_call_id": "c1", "name": "search", "content": "a.conf: port=1\nb.conf: port=2"},
    call("edit", '{"path":"a.conf"}'),
    {"role": "tool", "tool_call_id": "c1", "name": "edit", "content": "ok"},
    {"role": "assistant", "content": "Done."},
]


def save_tiny_model(folder: Path, context: int = 4096) -> Path:
    """Write the model and its tokenizer."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={character: place for place, character in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text) for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=qwen3_instruct_2507_chat_template,
        model_max_length=context,
    )
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
        bos_token_id=None,
    )
    Qwen3ForCausalLM(config).float().save_pretrained(folder)
    return folder
