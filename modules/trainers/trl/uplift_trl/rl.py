"""Reinforcement learning: tasks → checkpoints, by TRL's GRPOTrainer on rollouts in the environment service.

Takes a RlConfig and an output folder; reads the model, talks to the environment service, writes metrics, attempts'
outcomes and checkpoints. Rollouts are ours and not TRL's tool loop: that one runs tools one after another, reads malformed calls
differently from the server, and scores a lost attempt like a wrong one.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import GenerationConfig
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from .attempts import Attempts
from .config import RlConfig
from .environment import EnvironmentClient
from .models import adapter, load_model, load_tokenizer, prepare, shared_arguments
from .recorder import Recorder, Stage
from .rendering import Continuations, prompt_ids
from .rollouts import Rollout, Rollouts


def task_order(config: RlConfig) -> list[str]:
    """The task of every prompt of every step: all tasks in random order, then all again."""
    rng = random.Random(config.seed)
    order: list[str] = []
    while len(order) < config.steps * config.prompts_per_step:
        order += rng.sample(config.tasks, len(config.tasks))
    return order[: config.steps * config.prompts_per_step]


class EnvironmentTrainer(GRPOTrainer):
    """GRPOTrainer that tells its rollout function which tasks a batch is about."""

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.batch_tasks = [row["task_id"] for row in inputs]
        return super()._generate_and_score_completions(inputs)


class Policy:
    """Samples turns from the model that is being trained."""

    def __init__(self, tokenizer: Any, config: RlConfig) -> None:
        self._pad = tokenizer.pad_token_id
        self._eos = tokenizer.eos_token_id
        self._generation = GenerationConfig(
            do_sample=True,
            temperature=config.temperature,
            top_k=0,
            top_p=1.0,
            max_new_tokens=config.max_completion_tokens,
            eos_token_id=self._eos,
            pad_token_id=self._pad,
        )

    @torch.no_grad()
    def sample(self, model: Any, conversations: list[list[int]]) -> list[list[int]]:
        """The next turn of each conversation."""
        longest = max(map(len, conversations))
        ids = torch.tensor([[self._pad] * (longest - len(row)) + row for row in conversations])
        attention = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in conversations])
        training = model.training
        model.eval()
        generated = model.generate(input_ids=ids, attention_mask=attention, generation_config=self._generation)
        model.train(training)
        return [self._until_end(row) for row in generated[:, longest:].tolist()]

    def _until_end(self, turn: list[int]) -> list[int]:
        return turn[: turn.index(self._eos) + 1] if self._eos in turn else turn


def step_facts(rollouts: list[Rollout], group: int, retried: int) -> dict[str, Any]:
    """What a step's line says beyond TRL's own log."""
    groups = [rollouts[start : start + group] for start in range(0, len(rollouts), group)]
    flat = sum(len({one.reward for one in members if one.reward is not None}) < 2 for members in groups)
    lost = sum(one.lost is not None for one in rollouts)
    return {
        "allZeroOrOneGroups": flat,
        "infrastructureFailures": lost + retried,
        "attemptsLost": lost,
        "turns": round(sum(one.turns for one in rollouts) / len(rollouts), 2),
    }


def train(config: RlConfig, output: Path) -> None:
    """Train from the last complete checkpoint, or from the base, to the last step."""
    stage = Stage(output, "rl", config.steps)
    if stage.finished:
        stage.end()
        return
    prepare(config)
    stage.start(tasks=len(config.tasks))
    tokenizer = load_tokenizer(config.model)
    model = load_model(config.model)
    batch = config.prompts_per_step * config.rollouts_per_prompt
    client = EnvironmentClient(config.environment.url, connections=batch)
    rollouts = Rollouts(
        client,
        config.environment.task_set,
        tokenizer,
        Continuations(tokenizer),
        batch,
        config.max_turns,
        min(config.context_tokens, model.config.max_position_embeddings) - config.max_completion_tokens,
    )
    recorder = Recorder(stage)
    attempts = Attempts(output, stage.resume.step if stage.resume else 0)
    policy = Policy(tokenizer, config)

    def roll_out(prompts: list[list[dict[str, Any]]], trainer: EnvironmentTrainer) -> dict[str, Any]:
        policy_model = trainer.accelerator.unwrap_model(trainer.model)
        played = rollouts.play(
            trainer.batch_tasks,
            [prompt_ids(tokenizer, prompt, config.tools) for prompt in prompts],
            lambda conversations: policy.sample(policy_model, list(conversations)),
        )
        # The step that is being made; one that a kill undoes is made again, and its outcomes are dropped with it.
        attempts.add(trainer.state.global_step + 1, played)
        recorder.facts = step_facts(played, config.rollouts_per_prompt, client.failures.take())
        return {
            "prompt_ids": [one.prompt for one in played],
            "completion_ids": [one.tokens for one in played],
            "logprobs": None,
            "env_mask": [one.mask for one in played],
            "reward": [one.reward for one in played],
        }

    trainer = EnvironmentTrainer(
        model=model,
        args=grpo_arguments(config, stage, batch),
        reward_funcs=_reward,
        rollout_func=roll_out,
        train_dataset=Dataset.from_list(
            [
                {"prompt": [{"role": "user", "content": config.prompts[task]}], "task_id": task}
                for task in task_order(config)
            ]
        ),
        processing_class=tokenizer,
        peft_config=adapter(config.lora),
        callbacks=[recorder],
    )
    trainer.remove_callback(PrinterCallback)
    try:
        trainer.train(resume_from_checkpoint=str(stage.resume.path) if stage.resume else None)
    finally:
        rollouts.close()
        client.close()
    stage.end()


def _reward(reward: list[float | None], **_: Any) -> list[float | None]:
    """The grader's rewards; None for a lost attempt, which TRL then leaves out of its group's mean."""
    return reward


def grpo_arguments(config: RlConfig, stage: Stage, batch: int) -> GRPOConfig:
    """What GRPO is told; a step is one batch."""
    return GRPOConfig(
        **shared_arguments(config, stage.trainer_folder),
        per_device_train_batch_size=batch,
        num_generations=config.rollouts_per_prompt,
        max_completion_length=config.max_completion_tokens,
        temperature=config.temperature,
        # Without an adapter that can be switched off TRL holds a second copy of the model to diverge from.
        beta=config.kl_penalty,
        epsilon=config.clip_low,
        epsilon_high=config.clip_high,
        loss_type="dapo",
        scale_rewards="group",
        shuffle_dataset=False,
    )
