"""The base's tokenizer: byte-level BPE, with the family's boilerplate as single vocabulary entries.

Takes the family's tools; returns a Hugging Face tokenizer with TRL's Qwen3 chat template. Touches nothing. Any text
can be written in it (every byte is a token); the single entries are a trick for speed: an attempt takes about 100
tokens instead of about 600, so that a CPU trains and serves it in minutes.
"""

from __future__ import annotations

import json

from chores import KEYS, LAYOUTS, NUMBER_VALUES, STEMS, WORD_VALUES
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from trl.chat_template_utils import qwen3_instruct_2507_chat_template

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WORDS = KEYS + WORD_VALUES + STEMS + NUMBER_VALUES


def _boilerplate(tools: list[dict]) -> list[str]:
    """Text that every conversation repeats word for word."""
    heads = []
    for tool in tools:
        function = tool["function"]
        first, *rest = function["parameters"]["required"]
        heads.append(f'\n{{"name": "{function["name"]}", "arguments": {{"{first}": "')
        heads += [f'", "{name}": "' for name in rest]
    return [
        "system\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with "
        "function signatures within <tools></tools> XML tags:\n<tools>\n",
        *[json.dumps(tool) for tool in tools],
        "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
        "<tool_call></tool_call> XML tags:\n<tool_call>\n"
        '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
        *sorted(set(heads)),
        '"}}\n',
        "user\n",
        "assistant\n",
        "user\n<tool_response>\n",
        "\n</tool_response>",
        "<tool_call>",
        "</tool_call>",
        *["Set ", "Change ", "Rename ", "Call ", "Move the file with ", "Put the file with "],
        *[
            "Find ",
            "Say ",
            " to ",
            " by ",
            " at ",
            " in every file.",
            " everywhere.",
            " Commit as ",
            "Done.",
            "error: ",
        ],
        ": ",
        *sorted({part for layout in LAYOUTS for part in layout if part}),
    ]


def build_tokenizer(tools: list[dict]) -> PreTrainedTokenizerFast:
    """A tokenizer in which each word of the family and each piece of boilerplate is one token."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{L}+|\p{N}{1,2}|[^\p{L}\p{N}]+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        min_frequency=2,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator([" ".join(WORDS + ["ok", "none", "no", "file", "line"])] * 4, trainer)
    bpe.add_tokens([AddedToken(text, normalized=False) for text in _boilerplate(tools)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=qwen3_instruct_2507_chat_template,
        model_max_length=1024,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    split = [word for word in WORDS if len(tokenizer(word)["input_ids"]) != 1]
    if split:
        raise AssertionError(f"these words are more than one token: {split}")
    return tokenizer
