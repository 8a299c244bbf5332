"""The environment client and a batch of attempts against a real HTTP server that fails in chosen ways."""

from __future__ import annotations

import threading
import time
import unittest
from collections.abc import Callable

from uplift_trl.environment import AttemptLost, EnvironmentClient
from uplift_trl.rl import step_facts
from uplift_trl.rollouts import InfrastructureFailed, Rollouts
from uplift_trl.tests.service import Answer, Service, error
from uplift_trl.tool_calls import ToolCall

EOS = 0


class FakeText:
    """A tokenizer whose tokens stand for whole turns: 7 calls a tool, 8 talks."""

    eos_token_id = EOS

    def decode(self, token_ids: list[int], skip_special_tokens: bool = False) -> str:
        """The turn's text."""
        call = '<tool_call>\n{"name": "search", "arguments": {"text": "port"}}\n</tool_call>'
        return call if token_ids[0] == 7 else "Done."


class FakeContinuations:
    """Every answer is one token."""

    def after(self, answers: list[dict]) -> list[int]:
        """The token."""
        return [9] * len(answers)


class WithService(unittest.TestCase):
    def serve(self, answer: Callable[[str, str, dict], Answer | None] = lambda *_: None) -> Service:
        """A service that is stopped after the test."""
        service = Service(answer)
        self.addCleanup(service.stop)
        return service

    def client(self, service: Service, seconds: float = 5.0) -> EnvironmentClient:
        """A client that gives up after so many seconds."""
        client = EnvironmentClient(service.url, connections=64, retry_seconds=seconds)
        self.addCleanup(client.close)
        return client


class ClientTest(WithService):
    def test_an_infrastructure_error_is_tried_again_and_counted(self) -> None:
        failures = iter([error(503, True), error(500, True)])
        service = self.serve(lambda *_: next(failures, None))
        client = self.client(service)
        client.create("sha256:x", "task-1")
        self.assertEqual(service.seen, [("POST", "/v1/attempts")] * 3)
        self.assertEqual(client.failures.take(), 2)
        self.assertEqual(client.failures.take(), 0)

    def test_a_service_that_is_full_is_asked_again(self) -> None:
        failures = iter([error(429, False)])
        client = self.client(self.serve(lambda *_: next(failures, None)))
        client.create("sha256:x", "task-1")
        self.assertEqual(client.failures.take(), 1)

    def test_an_error_that_is_the_requests_own_fault_is_not_repeated(self) -> None:
        service = self.serve(lambda *_: error(422, False))
        with self.assertRaisesRegex(AttemptLost, "422 broken it broke"):
            self.client(service).create("sha256:x", "task-1")
        self.assertEqual(len(service.seen), 1)

    def test_an_id_in_use_after_a_repeat_is_our_own_first_request(self) -> None:
        answers = iter([error(503, True), error(409, False)])
        attempt = self.client(self.serve(lambda *_: next(answers, None))).create("sha256:x", "task-1")
        self.assertEqual(attempt.task_id, "task-1")

    def test_an_id_in_use_at_the_first_try_is_not(self) -> None:
        with self.assertRaises(AttemptLost):
            self.client(self.serve(lambda *_: error(409, False))).create("sha256:x", "task-1")

    def test_a_service_that_stays_away_is_given_up_after_the_limit(self) -> None:
        service = Service(lambda *_: None)
        service.stop()
        started = time.monotonic()
        with self.assertRaisesRegex(AttemptLost, "after [0-9]+ tries"):
            self.client(service, seconds=1.0).create("sha256:x", "task-1")
        self.assertLess(time.monotonic() - started, 3)

    def test_arguments_go_out_as_the_text_the_policy_wrote_and_the_grade_comes_back(self) -> None:
        service = self.serve()
        attempt = self.client(service).create("sha256:x", "task-1")
        self.assertEqual(attempt.call(ToolCall("search", '{"text": "a"}')), 'search {"text": "a"}')
        self.assertEqual(attempt.grade(), 1.0)
        attempt.leave()
        self.assertEqual(service.seen[-1], ("POST", f"/v1/attempts/{attempt.id}/grade"))


class BatchTest(WithService):
    def rollouts(self, service: Service, batch: int, seconds: float = 1.0, max_turns: int = 8) -> Rollouts:
        """A player of batches."""
        rollouts = Rollouts(
            self.client(service, seconds), "sha256:x", FakeText(), FakeContinuations(), batch, max_turns, 100
        )
        self.addCleanup(rollouts.close)
        return rollouts

    @staticmethod
    def call_then_stop(conversations: list[list[int]]) -> list[list[int]]:
        """Call a tool in the first turn, talk in the second."""
        return [[8, EOS] if 9 in row else [7, EOS] for row in conversations]

    def test_a_batch_is_created_called_and_graded_at_the_same_time(self) -> None:
        # Nobody is answered before all 32 have asked the same: one after another, none ever would be.
        together = {kind: threading.Barrier(32, timeout=60) for kind in ("attempts", "tool-calls", "grade")}

        def answer(_method: str, path: str, _body: dict) -> None:
            together[path.rsplit("/", 1)[-1]].wait()

        service = self.serve(answer)
        played = self.rollouts(service, 32, seconds=60).play(["task"] * 32, [[1, 2]] * 32, self.call_then_stop)
        self.assertEqual(service.most_at_once, 32)
        self.assertEqual({one.reward for one in played}, {1.0})
        self.assertEqual(played[0].tokens, [7, EOS, 9, 8, EOS])
        self.assertEqual(played[0].mask, [1, 1, 0, 1, 1])
        self.assertEqual(service.live, set())

    def test_a_lost_attempt_has_no_reward_and_no_mask_and_the_others_count(self) -> None:
        service = self.serve(lambda _m, path, body: error(410, False) if "lost" in body.get("taskId", "") else None)
        played = self.rollouts(service, 4).play(["a", "lost", "b", "c"], [[1]] * 4, self.call_then_stop)
        self.assertEqual([one.reward for one in played], [1.0, None, 1.0, 1.0])
        self.assertEqual(sum(played[1].mask), 0)
        self.assertEqual(step_facts(played, 4, 2)["infrastructureFailures"], 3)

    def test_an_attempt_lost_while_it_is_graded_is_masked_and_left(self) -> None:
        service = self.serve(lambda _m, path, _b: error(500, False) if path.endswith("/grade") else None)
        with self.assertRaisesRegex(InfrastructureFailed, "all 2 attempts"):
            self.rollouts(service, 2).play(["a", "b"], [[1]] * 2, self.call_then_stop)
        self.assertEqual(service.live, set())
        self.assertEqual(sum(method == "DELETE" for method, _ in service.seen), 2)

    def test_a_batch_in_which_every_attempt_is_lost_stops_the_step(self) -> None:
        service = self.serve(lambda *_: error(503, True))
        with self.assertRaisesRegex(InfrastructureFailed, "503 broken"):
            self.rollouts(service, 3, seconds=0.5).play(["a"] * 3, [[1]] * 3, self.call_then_stop)

    def test_attempts_are_ended_when_the_policy_fails(self) -> None:
        service = self.serve()

        def fail(_: object) -> list[list[int]]:
            raise RuntimeError("out of memory")

        with self.assertRaises(RuntimeError):
            self.rollouts(service, 3).play(["a"] * 3, [[1]] * 3, fail)
        self.assertEqual(service.live, set())

    def test_the_turn_limit_ends_an_attempt_and_it_is_graded(self) -> None:
        service = self.serve()
        played = self.rollouts(service, 1, max_turns=3).play(["a"], [[1]], lambda rows: [[7, EOS] for _ in rows])
        self.assertEqual((played[0].turns, played[0].reward), (3, 1.0))

    def test_the_calls_of_the_last_turn_are_carried_out_before_the_grade(self) -> None:
        service = self.serve()
        self.rollouts(service, 1, max_turns=3).play(["a"], [[1]], lambda rows: [[7, EOS] for _ in rows])
        asked = [path.rsplit("/", 1)[-1] for _, path in service.seen]
        self.assertEqual(asked, ["attempts", "tool-calls", "tool-calls", "tool-calls", "grade"])

    def test_a_turn_cut_at_its_limit_has_its_calls_not_carried_out_and_ends_the_attempt(self) -> None:
        service = self.serve()
        played = self.rollouts(service, 1).play(["a"], [[1]], lambda rows: [[7] for _ in rows])
        asked = [path.rsplit("/", 1)[-1] for _, path in service.seen]
        self.assertEqual(asked, ["attempts", "grade"])
        self.assertEqual((played[0].turns, played[0].reward, played[0].mask), (1, 1.0, [1]))

    def test_groups_in_which_all_rewards_are_the_same_are_counted(self) -> None:
        service = self.serve()
        played = self.rollouts(service, 4).play(["a"] * 4, [[1]] * 4, self.call_then_stop)
        played[0].reward = 0.0
        self.assertEqual(step_facts(played, 2, 0)["allZeroOrOneGroups"], 1)


if __name__ == "__main__":
    unittest.main()
