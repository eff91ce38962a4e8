#!/usr/bin/env python3
"""Evaluation, generation and the server on several ranks: the answers of one rank, and a clean end.

model_ranks_test.py EVALUATE_GPT GENERATE SERVER
"""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/serving")]
from python_script import run_script  # noqa: E402
from rank_processes import TIMEOUT, RankProcesses  # noqa: E402
from server_process import ServerProcess  # noqa: E402

SHARED = pathlib.Path(os.environ.get("MEG_SHARED", ROOT.parent / "shared"))
EVALUATE, GENERATE, SERVER = (os.path.abspath(path) for path in sys.argv[1:4])
GPT2 = SHARED / "data/gpt2"
LAMBADA = SHARED / "data/lambada/lambada_test.jsonl"
LINES = 40
COUNT = "One two three four five six seven eight nine ten "
# The last ones begin alike, longer than the piece that the second takes from the first.
TEXTS = ["Hello", "The quick brown fox jumps over the lazy dog", "In 1492", COUNT * 3,
         COUNT * 8 + "and", COUNT * 8 + "but"]
TP2, PP2 = "--tensor-model-parallel-size 2".split(), "--pipeline-model-parallel-size 2".split()


class StartedServer(ServerProcess):
    """A first rank that was started as a server."""

    def __init__(self, process):  # noqa: D107: the process is started by its launcher
        self.process = process
        self.port = int(re.search(r":(\d+)$", process.stdout.readline().strip()).group(1))


class ModelOnRanks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for script, *arguments in (
                (SHARED / "bench/make_hf_gpt2.py", cls.folder / "hf", "--layers", 4, "--hidden", 64,
                 "--heads", 4, "--positions", 128, "--std", 0.5),
                (ROOT / "tests/generation/hf_gpt2_to_megatron.py", cls.folder / "hf",
                 cls.folder / "checkpoint")):
            run_script(script, *arguments)
        cls.model = ["--load", cls.folder / "checkpoint", "--vocab-file", GPT2 / "vocab.json",
                     "--merge-file", GPT2 / "merges.txt", "--device", "cpu"]
        prompts = cls.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
        cls.generate = [GENERATE, *cls.model, "--prompt-file", prompts, "--tokens-to-generate", 12]
        cls.data = cls.folder / "lambada.jsonl"
        cls.data.write_text("".join(LAMBADA.read_text().splitlines(keepends=True)[:LINES]))

    def alone(self, command):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True,
                              timeout=TIMEOUT, env={**os.environ, "OMP_NUM_THREADS": "1"})
        return self.objects(done.stdout)

    def objects(self, text):
        """JSON lines, or one object over several."""
        if text.startswith("{\n"):
            return [json.loads(text)]
        return [json.loads(line) for line in text.splitlines()]

    def on_ranks(self, ranks, command, shape):
        """What the first rank wrote; the others write nothing."""
        codes, written = RankProcesses.end(RankProcesses(self).start(ranks, [*command, *shape]))
        self.assertEqual(set(codes), {0}, written)
        self.assertEqual({out for out, _ in written[1:]}, {""})
        return self.objects(written[0][0])

    def errors(self, written):
        return [line for _, err in written for line in err.splitlines() if line.startswith("error")]

    def assert_close(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            self.assertAlmostEqual(one, other, delta=2e-4)

    def test_texts_are_those_of_one_rank(self):
        flags = ["--greedy", "--logprobs", "--ignore-eod"]
        expected = self.alone([*self.generate, *flags])
        for ranks, shape in ((2, TP2), (2, PP2), (4, TP2 + PP2)):
            with self.subTest(shape=shape):
                found = self.on_ranks(ranks, [*self.generate, *flags], shape)
                for one, other in zip(found, expected, strict=True):
                    self.assert_close(one.pop("logprobs"), other["logprobs"])
                    self.assertEqual(one, {key: other[key] for key in one})

    def test_a_beam_search_finds_the_same_texts(self):
        flags = ["--beam-width", 3]
        for one, other in zip(self.on_ranks(2, [*self.generate, *flags], PP2),
                              self.alone([*self.generate, *flags]), strict=True):
            self.assertEqual([beam["ids"] for beam in one["beams"]],
                             [beam["ids"] for beam in other["beams"]])

    def test_two_copies_do_not_generate(self):
        codes, written = RankProcesses.end(RankProcesses(self).start(2, self.generate))
        self.assertEqual(codes, [1, 1])
        self.assertEqual(len(self.errors(written)), 1, written)
        self.assertIn("world size: expected tensor x pipeline parallel size 1 x 1, because only one copy of the model "
                      "generates, found 2", self.errors(written)[0])

    def test_what_the_first_rank_cannot_read_ends_all_once(self):
        codes, written = RankProcesses.end(RankProcesses(self).start(
            2, [GENERATE, *self.model, "--prompt-file", self.folder / "missing", *TP2]))
        self.assertEqual(codes, [1, 1])
        self.assertEqual(len(self.errors(written)), 1, written)
        self.assertIn("missing", self.errors(written)[0])

    def test_scores_are_those_of_one_rank(self):
        """Also where copies of the model share the examples."""
        results = self.folder / "results"
        command = [EVALUATE, *self.model, "--task", "LAMBADA", "--valid-data", self.data, "--json",
                   "--strict-lambada", "--output", results]
        expected = self.alone(command)[0]
        lines = self.objects(results.read_text())
        for ranks, shape in ((3, ["--micro-batch-size", 16]), (2, PP2), (4, TP2)):
            with self.subTest(ranks=ranks, shape=shape):
                found = self.on_ranks(ranks, command, shape)[0]
                for kind in ("strict", "last_token"):
                    self.assertEqual(found[kind]["correct"], expected[kind]["correct"])
                    self.assertAlmostEqual(
                        found[kind]["perplexity"] / expected[kind]["perplexity"], 1, delta=1e-4)
                for one, other in zip(self.objects(results.read_text()), lines, strict=True):
                    self.assert_close([one.pop("logprob")], [other["logprob"]])
                    self.assertEqual(one, {key: other[key] for key in one})

    def test_windows_of_wikitext_are_scored_alike(self):
        text = self.folder / "wiki.tokens"
        text.write_text(" = Fox = \n \n The quick brown fox jumps over the lazy dog . \n" * 20)
        command = [EVALUATE, *self.model, "--task", "WIKITEXT103", "--valid-data", text, "--json"]
        found, expected = self.on_ranks(2, command, TP2)[0], self.alone(command)[0]
        self.assertAlmostEqual(found["avg_loss"] / expected["avg_loss"], 1, delta=1e-5)

    def serve(self, ranks, *shape):
        processes = RankProcesses(self).start(
            ranks, [SERVER, *self.model, "--port", 0, *shape])
        return StartedServer(processes[0]), processes

    def test_a_server_answers_as_one_rank_and_ends_by_a_signal_to_all(self):
        server, processes = self.serve(4, *TP2, *PP2)
        with server.connect() as leaving:
            body = json.dumps({"prompts": ["Hello"], "tokens_to_generate": 100}).encode()
            leaving.sendall(b"PUT /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
                            % (len(body), body))
            leaving.shutdown(socket.SHUT_WR)
        status, answer = server.ask({"prompts": TEXTS, "tokens_to_generate": 12, "top_k": 1})
        self.assertEqual(status, 200, answer)
        expected = self.alone([*self.generate, "--greedy"])
        self.assertEqual(answer["text"], [line["prompt_text"] + line["text"] for line in expected])
        for process in processes:
            process.send_signal(signal.SIGTERM)
        codes, written = RankProcesses.end(processes)
        self.assertEqual(codes, [0] * 4, written)
        self.assertEqual(self.errors(written), [])

    def test_a_server_whose_rank_is_gone_says_so_and_ends(self):
        server, processes = self.serve(2, *TP2)
        processes[1].kill()
        processes[1].wait()
        status, answer = server.ask({"prompts": ["Hello"], "tokens_to_generate": 5})
        self.assertEqual(status, 500, answer)
        codes, written = RankProcesses.end(processes)
        self.assertEqual(codes, [1, -signal.SIGKILL], written)
        self.assertEqual(len(self.errors(written)), 1, written)


if __name__ == "__main__":
    if not GPT2.is_dir() or not importlib.util.find_spec("transformers"):
        print(f"skipped: {GPT2} or transformers is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
