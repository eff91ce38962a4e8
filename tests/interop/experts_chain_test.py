#!/usr/bin/env python3
"""A Qwen3-MoE of transformers through all that a user does with it: imported, trained on ranks that share its experts,
evaluated, generated from, served, and exported to transformers, which computes the same.

experts_chain_test.py BIN TOKENIZER [unittest arguments]
TOKENIZER: a folder of vocab.json and merges.txt.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [TESTS, os.path.join(TESTS, "serving")]
from rank_processes import RankProcesses  # noqa: E402
from server_process import ServerProcess  # noqa: E402

os.environ["OMP_NUM_THREADS"] = "1"  # such a small model is no work for threads
try:
    import safetensors.torch
    import torch
    import transformers
    from tokenizers import ByteLevelBPETokenizer
    from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3MoeConfig
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BIN = TOKENIZER = ""
END = "<|endoftext|>"
EP2 = ["--expert-model-parallel-size", 2]
PROMPTS = ["The quick brown", "One two three four"]
TEXTS = ["The quick brown fox jumps over the lazy dog", "One two three four five six seven eight nine ten",
         "All experts of a layer are shared by the ranks", "In the beginning there was one token"]
GREEDY = 12


def tensors_of(folder):
    return safetensors.torch.load_file(folder / "model.safetensors")


class Chain(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, name, *arguments):
        done = subprocess.run([os.path.join(BIN, name), *map(str, arguments)], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-1500:] + done.stderr)
        return done.stdout

    def make_model(self):
        """A folder of transformers, with its tokenizer; about as sure of its tokens as a trained model."""
        files = (os.path.join(TOKENIZER, name) for name in ("vocab.json", "merges.txt"))
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=ByteLevelBPETokenizer.from_file(*files)._tokenizer,  # pylint: disable=protected-access
            eos_token=END)
        torch.manual_seed(3)
        model = AutoModelForCausalLM.from_config(Qwen3MoeConfig(
            vocab_size=len(tokenizer), hidden_size=48, intermediate_size=96, moe_intermediate_size=40, head_dim=16,
            num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, num_experts=4, num_experts_per_tok=2,
            norm_topk_prob=True, max_position_embeddings=64, initializer_range=0.2,
            eos_token_id=tokenizer.eos_token_id), dtype=torch.float32)
        model.save_pretrained(self.folder / "source")
        tokenizer.save_pretrained(self.folder / "source")
        return self.folder / "source"

    def write_lines(self, name, texts):
        (self.folder / name).write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        return self.folder / name

    def run_ranks(self, ranks, name, *arguments):
        codes, written = RankProcesses.end(RankProcesses(self).start(ranks, [os.path.join(BIN, name), *arguments]))
        self.assertEqual(set(codes), {0}, written)

    def train(self, ranks, load, save, *flags):
        self.run_ranks(
            ranks, "pretrain_gpt", "--load", load, "--save", self.folder / save, "--use-checkpoint-args", "--finetune",
            "--no-load-optim", "--no-load-rng", "--seq-length", 32, "--micro-batch-size", 2, "--global-batch-size", 4,
            "--train-iters", 3, "--lr", "1e-2", "--adam-eps", "1e-2", "--data-path",
            self.folder / "corpus_text_document", "--split", "100,0,0", "--eval-iters", 0, "--moe-aux-loss-coeff", "1e-2",
            "--moe-router-load-balancing-type", "seq_aux_loss", "--ckpt-format", "torch_dist", "--device", "cpu",
            *self.tokenizer, *flags)
        return self.folder / save

    def export(self, load, save):
        self.run_program("checkpoint_util", "--load-dir", load, "--save-dir", self.folder / save,
                         "--target-format", "huggingface")
        return self.folder / save

    def test_what_ranks_trained_is_the_same_everywhere(self):
        source = self.make_model()
        self.tokenizer = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", source]
        self.run_program("preprocess_data", "--input", self.write_lines("corpus.jsonl", TEXTS * 10), "--output-prefix",
                         self.folder / "corpus", "--append-eod", *self.tokenizer)
        # Without rows of padding, which would have a share of the probabilities.
        self.run_program("checkpoint_util", "--load-dir", source, "--save-dir", self.folder / "imported",
                         "--target-expert-parallel-size", 2, "--make-vocab-size-divisible-by", 1)
        trained = self.train(2, self.folder / "imported", "trained", *EP2)
        exported = self.export(trained, "exported")
        self.expect_trained(source, exported)
        model = AutoModelForCausalLM.from_pretrained(exported).eval()
        tokenizer = AutoTokenizer.from_pretrained(source)
        self.expect_scores(trained, model, tokenizer)
        self.expect_texts(trained, model, tokenizer)

    def expect_trained(self, source, exported):
        """Like one rank, which takes the model without a conversion; every tensor has moved."""
        one, two, before = (tensors_of(folder) for folder in (
            self.export(self.train(1, source, "alone"), "alone_exported"), exported, source))
        self.assertEqual(one.keys(), before.keys())
        self.assertEqual(two.keys(), before.keys())
        for name, tensor in before.items():
            self.assertEqual(two[name].shape, tensor.shape, name)
            self.assertGreater((two[name] - tensor).abs().max().item(), 1e-4, name)
            self.assertLess((two[name] - one[name]).abs().max().item(), 2e-6, name)

    def expect_scores(self, trained, model, tokenizer):
        results = self.folder / "results.jsonl"
        # On two copies of the model, with the flags of its training.
        self.run_ranks(2, "evaluate_gpt", "--load", trained, "--task", "LAMBADA", "--valid-data",
                       self.write_lines("lambada.jsonl", TEXTS), "--output", results, "--device", "cpu",
                       *self.tokenizer, *EP2)
        for text, line in zip(TEXTS, results.read_text().splitlines(), strict=True):
            found = json.loads(line)
            ids = torch.tensor(tokenizer(text).input_ids)
            with torch.no_grad():
                logits = model(ids[None, :-1]).logits[0, -1]
            self.assertEqual((found["target"], found["predicted"]), ([ids[-1].item()], [logits.argmax().item()]))
            self.assertAlmostEqual(found["logprob"], logits.log_softmax(-1)[ids[-1]].item(), delta=1e-5)

    def expect_texts(self, trained, model, tokenizer):
        """What `generate` and the server answer is what transformers generates."""
        expected = []
        for prompt in PROMPTS:
            ids = tokenizer(prompt, return_tensors="pt").input_ids
            whole = model.generate(ids, max_new_tokens=GREEDY, do_sample=False, eos_token_id=None,
                                   attention_mask=torch.ones_like(ids), pad_token_id=0)
            expected.append(whole[0, ids.shape[1]:].tolist())
        texts = self.folder / "texts.jsonl"
        self.run_program("generate", "--load", trained, "--prompt-file", self.write_lines("prompts.jsonl", PROMPTS),
                         "--tokens-to-generate", GREEDY, "--greedy", "--ignore-eod", "--device", "cpu", "--output",
                         texts, *self.tokenizer)
        self.assertEqual([json.loads(line)["ids"] for line in texts.read_text().splitlines()], expected)
        server = ServerProcess(os.path.join(BIN, "run_text_generation_server"), "--load", trained, "--device", "cpu",
                               *self.tokenizer, vocabulary=[])
        try:
            status, answer = server.ask({"prompts": PROMPTS, "tokens_to_generate": GREEDY, "top_k": 1,
                                         "prevent_newline_after_colon": False})
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["text"], [prompt + tokenizer.decode(ids)
                                              for prompt, ids in zip(PROMPTS, expected, strict=True)])
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    BIN, TOKENIZER = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    unittest.main()
