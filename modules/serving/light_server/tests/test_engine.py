"""The generation loop: what comes out does not depend on who else is in the batch, and nobody waits for others."""

from __future__ import annotations

import random
import threading
import unittest
from typing import Any

import torch

from light_server.engine import Engine, Sampling, Sequence
from light_server.tests.tiny import tiny_model, tiny_tokenizer


class Answers:
    """Collects what the engine gives back."""

    def __init__(self) -> None:
        self.given: dict[int, tuple[Any, list[int]]] = {}
        self._changed = threading.Condition()

    def submit(self, engine: Engine, key: int, prompt: list[int], sampling: Sampling) -> Sequence:
        """Submit a request whose answer will be `given[key]`."""
        sequence = Sequence(prompt, sampling, lambda finish, answer: self._take(key, finish, answer))
        engine.submit(sequence)
        return sequence

    def _take(self, key: int, finish: Any, answer: list[int]) -> None:
        with self._changed:
            self.given[key] = (finish, list(answer))
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        """Until so many answers are there."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.given) >= count, timeout=60):
                raise TimeoutError(f"{len(self.given)} of {count} answers")


class Generation(unittest.TestCase):
    """On a random model."""

    @classmethod
    def setUpClass(cls) -> None:
        torch.set_num_threads(1)
        cls.tokenizer = tiny_tokenizer()
        cls.model = tiny_model(cls.tokenizer)
        cls.stop = {cls.tokenizer.eos_token_id}

    def setUp(self) -> None:
        self.engine = Engine(self.model, self.stop)
        self.addCleanup(lambda: self.engine.close())
        self.answers = Answers()

    def prompts(self, count: int) -> list[list[int]]:
        draw = random.Random(1)
        return [[draw.randrange(3, 250) for _ in range(draw.randrange(3, 60))] for _ in range(count)]

    def reference(self, prompt: list[int], tokens: int) -> list[int]:
        ids = torch.tensor([prompt])
        output = self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False)
        answer = output[0, len(prompt) :].tolist()
        return answer[:-1] if answer[-1] in self.stop else answer

    def test_a_batch_of_different_lengths_says_what_each_says_alone(self) -> None:
        prompts = self.prompts(32)
        for key, prompt in enumerate(prompts):
            self.answers.submit(self.engine, key, prompt, Sampling(4 + key % 20, temperature=0))
        self.answers.wait(32)
        for key, prompt in enumerate(prompts):
            self.assertEqual(self.answers.given[key][1], self.reference(prompt, 4 + key % 20), key)
        self.assertGreater(self.engine.largest_batch, 16)

    def test_requests_join_and_leave_while_others_are_under_way(self) -> None:
        prompts = self.prompts(12)
        long = Sampling(200, temperature=0)
        self.engine._stop_ids = set()  # so that the first one really is long
        self.answers.submit(self.engine, 0, prompts[0], long)
        for key in range(1, 12):
            self.answers.submit(self.engine, key, prompts[key], Sampling(3, temperature=0))
            self.answers.wait(key)
        # Eleven came and went, one after the other, and the long one had not ended before the last of them did.
        self.answers.wait(12)
        self.assertEqual(list(self.answers.given)[-1], 0)
        self.assertEqual(len(self.answers.given[0][1]), 200)
        ids = torch.tensor([prompts[0]])
        alone = self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=200, min_new_tokens=200, do_sample=False, eos_token_id=-1)
        self.assertEqual(self.answers.given[0][1], alone[0, len(prompts[0]) :].tolist())

    def test_a_seed_gives_the_same_answer_alone_and_in_company(self) -> None:
        prompt = self.prompts(1)[0]
        sampling = Sampling(20, temperature=1.0, top_p=0.95, seed=7)
        self.answers.submit(self.engine, 0, prompt, sampling)
        self.answers.wait(1)
        for key, other in enumerate(self.prompts(8), start=2):
            self.answers.submit(self.engine, key, other, Sampling(20, seed=key))
        self.answers.submit(self.engine, 1, prompt, sampling)
        self.answers.submit(self.engine, 10, prompt, Sampling(20, temperature=1.0, top_p=0.95, seed=8))
        self.answers.wait(11)
        self.assertEqual(self.answers.given[0], self.answers.given[1])
        self.assertNotEqual(self.answers.given[0], self.answers.given[10])

    def test_draws_follow_the_models_probabilities(self) -> None:
        prompt = self.prompts(1)[0]
        with torch.inference_mode():
            logits = self.model(torch.tensor([prompt])).logits[0, -1].float()
        wanted = (logits / 2.0).softmax(-1)
        for seed in range(2000):
            self.answers.submit(self.engine, seed, prompt, Sampling(1, temperature=2.0, seed=seed))
        self.answers.wait(2000)
        likeliest = int(wanted.argmax())
        share = sum(1 for _, answer in self.answers.given.values() if answer == [likeliest]) / 2000
        # Five standard errors of a share of 2000 draws.
        margin = 5 * float((wanted[likeliest] * (1 - wanted[likeliest]) / 2000) ** 0.5)
        self.assertAlmostEqual(share, float(wanted[likeliest]), delta=margin)

    def test_a_tiny_top_p_takes_the_likeliest_token(self) -> None:
        prompt = self.prompts(1)[0]
        self.answers.submit(self.engine, 0, prompt, Sampling(10, temperature=1.0, top_p=1e-6, seed=1))
        self.answers.submit(self.engine, 1, prompt, Sampling(10, temperature=0))
        self.answers.wait(2)
        self.assertEqual(self.answers.given[0][1], self.answers.given[1][1])

    def test_the_end_token_ends_the_answer_and_is_not_part_of_it(self) -> None:
        prompt = self.prompts(1)[0]
        whole = self.reference(prompt, 12)
        self.engine._stop_ids = {whole[5]}
        self.answers.submit(self.engine, 0, prompt, Sampling(12, temperature=0))
        self.answers.wait(1)
        self.assertEqual(self.answers.given[0], ("stop", whole[: whole.index(whole[5])]))

    def test_a_cancelled_request_leaves_the_batch(self) -> None:
        self.engine._stop_ids = set()
        sequence = self.answers.submit(self.engine, 0, self.prompts(1)[0], Sampling(100_000, temperature=0))
        sequence.cancelled = True
        self.answers.submit(self.engine, 1, self.prompts(1)[0], Sampling(2, temperature=0))
        self.answers.wait(1)
        self.assertIn(1, self.answers.given)

    def test_a_failure_reaches_its_requests_and_the_loop_goes_on(self) -> None:
        self.answers.submit(self.engine, 0, [10**9], Sampling(2, temperature=0))
        self.answers.wait(1)
        self.assertIsInstance(self.answers.given[0][0], Exception)
        self.answers.submit(self.engine, 1, self.prompts(1)[0], Sampling(2, temperature=0))
        self.answers.wait(2)
        self.assertEqual(self.answers.given[1][1], self.reference(self.prompts(1)[0], 2))


if __name__ == "__main__":
    unittest.main()
