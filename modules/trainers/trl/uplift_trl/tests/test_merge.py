"""Merging an adapter on a small random model, and what verification refuses."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

import torch
from peft import get_peft_model
from safetensors.torch import load_file, save_file

from uplift_trl.config import ConfigError, Lora
from uplift_trl.merge import MergeError, adopt, import_base, merge, tensors, verify
from uplift_trl.models import adapter, load_model, load_tokenizer
from uplift_trl.rendering import prompt_ids
from uplift_trl.tests.tiny import CONVERSATION, TOOLS, save_tiny_model


class MergeTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        self.base = save_tiny_model(self.root / "base")
        self.conversations = self.root / "conversations.json"
        self.conversations.write_text(json.dumps([{"messages": CONVERSATION[:3], "tools": TOOLS}]))
        self.adapter = self.root / "adapter"
        model = get_peft_model(load_model(self.base), adapter(Lora(rank=4, alpha=8)))
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.1)
        model.save_pretrained(self.adapter)

    def merged(self) -> Path:
        """The merged model's folder."""
        merge(self.base, self.adapter, self.root / "merged", self.conversations)
        return self.root / "merged"

    def test_a_merged_tensor_is_base_plus_scaled_b_times_a(self) -> None:
        before, after = tensors(self.base), tensors(self.merged())
        lora = load_file(self.adapter / "adapter_model.safetensors")
        name = "model.layers.1.mlp.down_proj"
        change = 2.0 * lora[f"base_model.model.{name}.lora_B.weight"] @ lora[f"base_model.model.{name}.lora_A.weight"]
        torch.testing.assert_close(after[f"{name}.weight"], before[f"{name}.weight"] + change)

    def test_embeddings_norms_and_output_layer_are_the_bases(self) -> None:
        before, after = tensors(self.base), tensors(self.merged())
        self.assertEqual(before.keys(), after.keys())
        kept = [name for name in before if "embed" in name or "norm" in name or "lm_head" in name]
        self.assertGreater(len(kept), 4)
        for name in kept:
            self.assertTrue(torch.equal(before[name], after[name]), name)

    def test_the_merged_folder_loads_by_itself_with_tokenizer_and_probe(self) -> None:
        folder = self.merged()
        ids = prompt_ids(load_tokenizer(folder), CONVERSATION[:3], TOOLS)
        (case,) = json.loads((folder / "rendering-probe.json").read_text())["cases"]
        self.assertEqual(case["tokenIds"], ids)
        logits = load_model(folder)(torch.tensor([ids])).logits
        self.assertTrue(torch.isfinite(logits).all())
        self.assertFalse((folder / "adapter_config.json").exists())

    def test_an_adapter_with_a_number_that_is_not_finite_leaves_no_folder(self) -> None:
        path = self.adapter / "adapter_model.safetensors"
        lora = load_file(path)
        name = next(name for name in lora if "lora_B" in name)
        lora[name][0, 0] = float("nan")
        save_file(lora, path, metadata={"format": "pt"})
        with self.assertRaises((MergeError, ValueError)):
            self.merged()
        self.assertFalse((self.root / "merged").exists())

    def test_verification_names_tensors_that_differ_from_what_the_adapter_says(self) -> None:
        before = {"a.weight": torch.ones(2), "norm.weight": torch.ones(2)}
        changed = {"a.weight": torch.zeros(2), "norm.weight": torch.ones(2)}
        verify(before, changed, {"a.weight"})
        cases = [
            ({"a.weight": torch.zeros(2)}, {"a.weight"}, "name"),
            ({**changed, "a.weight": torch.zeros(3)}, {"a.weight"}, "shape"),
            ({**changed, "a.weight": torch.tensor([0.0, float("inf")])}, {"a.weight"}, "finite"),
            (before, {"a.weight"}, "should have changed"),
            ({**changed, "norm.weight": torch.zeros(2)}, {"a.weight"}, "norm.weight"),
            (changed, {"a.weight", "b.weight"}, "b.weight"),
        ]
        for after, targets, words in cases:
            with self.assertRaisesRegex(MergeError, words):
                verify(before, after, targets)

    def trained(self, change: float) -> Path:
        """A checkpoint of all weights as a trainer writes it, each changed by so much."""
        model = load_model(self.base)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += change
        model.config.use_cache = False
        model.save_pretrained(self.root / "trained")
        (self.root / "trained" / "optimizer.pt").write_bytes(b"state")
        return self.root / "trained"

    def test_adopted_weights_are_the_trained_ones_with_everything_else_the_bases(self) -> None:
        trained, output = self.trained(0.5), self.root / "model"
        adopt(self.base, trained, output, self.conversations)
        before, after = tensors(self.base), tensors(output)
        self.assertEqual(before.keys(), after.keys())
        for name in before:
            torch.testing.assert_close(after[name], before[name] + 0.5)
        for name in ("config.json", "tokenizer.json"):
            self.assertEqual((output / name).read_text(), (self.base / name).read_text(), name)
        ids = prompt_ids(load_tokenizer(output), CONVERSATION[:3], TOOLS)
        (case,) = json.loads((output / "rendering-probe.json").read_text())["cases"]
        self.assertEqual(case["tokenIds"], ids)
        self.assertTrue(torch.isfinite(load_model(output)(torch.tensor([ids])).logits).all())
        self.assertFalse((output / "optimizer.pt").exists())

    def test_trained_weights_with_a_number_that_is_not_finite_leave_no_folder(self) -> None:
        with self.assertRaisesRegex(MergeError, "not finite"):
            adopt(self.base, self.trained(float("nan")), self.root / "model", self.conversations)
        self.assertFalse((self.root / "model").exists())

    def test_an_adapter_is_not_adopted_as_all_weights(self) -> None:
        with self.assertRaisesRegex(MergeError, "differ in name"):
            adopt(self.base, self.adapter, self.root / "model", self.conversations)

    def test_an_imported_base_is_the_base_with_a_probe(self) -> None:
        import_base(self.base, self.root / "imported", self.conversations)
        for path in self.base.iterdir():
            self.assertEqual(path.read_bytes(), (self.root / "imported" / path.name).read_bytes())
        self.assertTrue((self.root / "imported" / "rendering-probe.json").exists())

    def test_a_folder_without_weights_is_refused(self) -> None:
        (self.base / "model.safetensors").unlink()
        with self.assertRaises(ConfigError):
            import_base(self.base, self.root / "imported", self.conversations)


if __name__ == "__main__":
    unittest.main()
