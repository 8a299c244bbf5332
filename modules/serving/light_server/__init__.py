"""Light server: one Hugging Face model behind the OpenAI chat API, in one process, for machines without vLLM."""
