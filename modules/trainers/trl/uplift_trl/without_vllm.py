"""Tells TRL that there is no vLLM, before its trainers are imported.

Takes and returns nothing; changes one function of TRL in this process. The venv has the server's vLLM, which the
trainer does not use: importing it costs 5 seconds and 300 MB at every start, and warnings of its version.
"""

from __future__ import annotations


def hide_vllm() -> None:
    """From here on TRL's trainers load without vLLM."""
    from trl import import_utils

    import_utils.is_vllm_available = lambda *_, **__: False
