"""Starts the light server: argv and environment → a listening port.

`python -m light_server --model FOLDER --served-model-name NAME --host HOST --port PORT --max-model-len N --dtype float32`
with the API key in the file that UPLIFT_API_KEY_PATH names; the key itself is in no argument, variable or log.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import uvicorn
from transformers import AutoModelForCausalLM, AutoTokenizer

from .app import Settings, make_app
from .engine import Engine


def main() -> None:
    """Load, then listen: /health answers only when the model does."""
    parser = argparse.ArgumentParser(prog="light_server", description="One model behind the OpenAI chat API.")
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--max-model-len", required=True, type=int)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    arguments = parser.parse_args()

    api_key = Path(os.environ["UPLIFT_API_KEY_PATH"]).read_text().strip()
    if not api_key:
        parser.error("the file that UPLIFT_API_KEY_PATH names is empty")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=getattr(torch, arguments.dtype)).eval()
    stop = model.generation_config.eos_token_id
    stop_ids = {tokenizer.eos_token_id, *(stop if isinstance(stop, list) else [stop])} - {None}
    settings = Settings(arguments.served_model_name, arguments.max_model_len, api_key)
    app = make_app(tokenizer, Engine(model, stop_ids), settings)
    uvicorn.run(app, host=arguments.host, port=arguments.port, log_level="warning", timeout_keep_alive=75)


main()
