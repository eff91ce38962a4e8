#!/usr/bin/env python3
"""The program generate beside transformers on the same weights, and what it does with its flags.

generate_test.py PROGRAM [unittest arguments]
"""
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from python_script import run_script  # noqa: E402

os.environ["OMP_NUM_THREADS"] = "1"
SHARED = os.environ.get("MEG_SHARED") or os.path.join(HERE, "../../../shared")
BENCH = os.path.join(SHARED, "bench")
VOCAB = os.path.join(SHARED, "data/gpt2/vocab.json")
MERGES = os.path.join(SHARED, "data/gpt2/merges.txt")
TEXTS = ["Hello", "The quick brown fox jumps over the lazy dog", "In 1492", "a: b\n\nc: d",
         "Naïve café, 東京 and 🙂", "One two three four five six seven eight nine ten " * 3]

try:
    import safetensors  # noqa: F401
    import tokenizers  # noqa: F401
    import torch  # noqa: F401
    import transformers  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
for needed in (BENCH, VOCAB, MERGES):
    if not os.path.exists(needed):
        print(f"skipped: not found: {needed}")
        sys.exit(77)

PROGRAM = ""


def shown(text):
    """text as a terminal may show it: control characters escaped."""
    def escaped(character):
        is_control = ord(character) < 0x20 or 0x7f <= ord(character) < 0xa0
        if not is_control or character in "\n\t":
            return character
        return "".join(f"\\x{byte:02x}" for byte in character.encode())
    return "".join(map(escaped, text))


def read_lines(path):
    with open(path, encoding="utf8") as file:
        return [json.loads(line) for line in file]


class GenerateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory()
        cls.folder = cls.held.name
        # Wide weights, so that no two tokens are nearly as likely.
        run_script(os.path.join(BENCH, "make_hf_gpt2.py"), cls.at("hf"), "--layers", "3", "--hidden",
               "64", "--heads", "4", "--positions", "128", "--std", "0.5")
        run_script(os.path.join(HERE, "hf_gpt2_to_megatron.py"), cls.at("hf"), cls.at("checkpoint"))
        with open(cls.at("prompts.jsonl"), "w", encoding="utf8") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in TEXTS)

    @classmethod
    def tearDownClass(cls):
        cls.held.cleanup()

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder, name)

    def run_program(self, *arguments, stdin="", load="checkpoint"):
        return subprocess.run(
            [PROGRAM, "--load", self.at(load), "--vocab-file", VOCAB, "--merge-file",
             MERGES, "--device", "cpu", *arguments],
            input=stdin, capture_output=True, encoding="utf8")

    def lines_of(self, *arguments):
        done = self.run_program(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def error_of(self, code, *arguments):
        done = self.run_program(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        last = done.stderr.splitlines()[-1]
        self.assertTrue(last.startswith("error: "), last)
        return last

    def test_greedy_texts_are_those_of_transformers(self):
        run_script(os.path.join(BENCH, "peer_generate.py"), self.at("hf"), "--prompts",
               self.at("prompts.jsonl"), "--tokens", "48", "--vocab-file", VOCAB, "--merge-file",
               MERGES, "--output", self.at("peer.jsonl"))
        wanted = read_lines(self.at("peer.jsonl"))
        self.assertEqual(len(wanted), len(TEXTS))
        for slots, load in (("1", "checkpoint"), ("4", "hf"), ("16", "checkpoint")):
            done = self.run_program("--prompt-file", self.at("prompts.jsonl"), "--tokens-to-generate",
                                    "48", "--greedy", "--ignore-eod", "--micro-batch-size", slots,
                                    "--output", self.at("ours.jsonl"), load=load)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, "")
            ours = read_lines(self.at("ours.jsonl"))
            self.assertEqual([line.pop("prompt_text") for line in ours], TEXTS)
            self.assertEqual(ours, wanted)

    def test_texts_may_stand_on_the_command_line(self):
        asked = ["--tokens-to-generate", "4", "--greedy", "--ignore-eod"]
        wanted = self.lines_of("--prompt-file", self.at("prompts.jsonl"), *asked)
        self.assertEqual(self.lines_of("--prompts", *TEXTS, *asked), wanted)
        self.assertEqual(self.lines_of("--prompt-file", self.at("prompts.jsonl"), *asked,
                                       "--prompt-file-num-truncate", "2"), wanted[:2])

    def test_megatrons_names_of_flags_are_heeded_or_refused(self):
        asked = ["--prompts", *TEXTS, "--greedy"]
        self.assertEqual(self.lines_of(*asked, "--num-tokens-to-generate", "4", "--return-log-probs"),
                         self.lines_of(*asked, "--tokens-to-generate", "4", "--logprobs"))
        refused = {"--termination-id": "5", "--stop-words": "a", "--output-path": "texts.json",
                   "--sample-input-file": "in.txt"}
        error = self.error_of(1, *asked, "--tokenizer-hf-no-use-fast", *itertools.chain(*refused.items()))
        for flag in ("--tokenizer-hf-no-use-fast", *refused):
            self.assertRegex(error, flag + "[^;:]*: not supported yet")

    def test_log_probabilities_are_those_of_transformers(self):
        model = transformers.GPT2LMHeadModel.from_pretrained(self.at("hf")).eval()
        for line in self.lines_of("--prompt-file", self.at("prompts.jsonl"), "--tokens-to-generate",
                                  "8", "--top_p", "0.9", "--logprobs"):
            ids = torch.tensor(line["prompt"] + line["ids"])
            with torch.no_grad():
                scores = model(ids[None]).logits[0].log_softmax(-1)
            found = torch.tensor(line["logprobs"])
            self.assertLess((scores[:-1].gather(1, ids[1:, None])[:, 0] - found).abs().max(), 1e-4)

    def test_samples_follow_their_seed(self):
        asked = ["--num-samples", "3", "--tokens-to-generate", "6", "--temperature", "0.8"]
        first = self.lines_of(*asked, "--seed", "7")
        self.assertEqual(first, self.lines_of(*asked, "--seed", "7", "--micro-batch-size", "1"))
        self.assertNotEqual(first, self.lines_of(*asked, "--seed", "8"))
        self.assertNotEqual(first[0]["ids"], first[1]["ids"])
        self.assertEqual([line["prompt"] for line in first], [[50256]] * 3)
        # A text's seed is the program's and its number.
        self.assertEqual(first[1]["ids"], self.lines_of(*asked, "--seed", "8")[0]["ids"])

    def test_without_a_count_texts_end_where_the_positions_do(self):
        with open(self.at("long.txt"), "w", encoding="utf8") as file:
            file.write("Hello\n" + "word " * 99 + "word\n")
        lines = self.lines_of("--prompt-file", self.at("long.txt"), "--greedy", "--ignore-eod")
        self.assertEqual([len(line["ids"]) for line in lines], [64, 28])
        with open(self.at("long.txt"), "w", encoding="utf8") as file:
            file.write("word " * 127 + "word\n")
        self.assertIn("found 128 and 1", self.error_of(1, "--prompt-file", self.at("long.txt")))

    def test_beams_are_those_of_transformers(self):
        model = transformers.GPT2LMHeadModel.from_pretrained(self.at("hf")).eval()
        for size, penalty in ((0, 1.0), (2, 0.5)):
            lines = self.lines_of("--prompt-file", self.at("prompts.jsonl"), "--tokens-to-generate",
                                  "12", "--beam-width", "4", "--no-repeat-ngram-size", str(size),
                                  "--length-penalty", str(penalty), "--ignore-eod")
            for line, text in zip(lines, TEXTS, strict=True):
                ids = torch.tensor([line["prompt"]])
                # Without an end of document all texts are equally long.
                wanted = model.generate(ids, attention_mask=torch.ones_like(ids), num_beams=4,
                                        num_return_sequences=4, max_new_tokens=12,
                                        no_repeat_ngram_size=size, length_penalty=penalty,
                                        eos_token_id=None, pad_token_id=0, do_sample=False,
                                        output_scores=True, return_dict_in_generate=True)
                found = line["beams"]
                self.assertEqual([beam["ids"] for beam in found],
                                 wanted.sequences[:, ids.shape[1]:].tolist())
                for beam, score in zip(found, wanted.sequences_scores.tolist(), strict=True):
                    self.assertAlmostEqual(beam["score"], score, places=4)
                self.assertEqual((line["ids"], line["text"]), (found[0]["ids"], found[0]["text"]))
                self.assertEqual(line["prompt_text"], text)

    def test_beams_do_not_depend_on_what_is_beside_them(self):
        asked = ["--prompt-file", self.at("prompts.jsonl"), "--tokens-to-generate", "6", "--beam-width",
                 "3", "--micro-batch-size"]
        self.assertEqual(self.lines_of(*asked, "1"), self.lines_of(*asked, "16"))

    def test_lengths_count_as_their_flags_say(self):
        with open(self.at("prompts.txt"), "w", encoding="utf8") as file:
            file.write("Hello world, this is\n\n   \nOne two three four five\n")
        lines = self.lines_of("--prompt-file", self.at("prompts.txt"), "--out-seq-length", "6",
                              "--greedy", "--ignore-eod")
        self.assertEqual([len(line["prompt"]) + len(line["ids"]) for line in lines], [6, 6])
        lines = self.lines_of("--prompt-file", self.at("prompts.txt"), "--prompt-tokens", "2",
                              "--tokens-to-generate", "0")
        self.assertEqual([len(line["prompt"]) for line in lines], [2, 2])
        self.assertEqual([line["text"] for line in lines], ["", ""])

    def test_interactive_prompts_are_answered_until_stop(self):
        done = self.run_program("--interactive", "--tokens-to-generate", "3", "--greedy",
                                stdin="Hello\n\nIn 1492\nstop\nnever\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = done.stdout.split("\n\n")
        self.assertTrue(answers[0].startswith("Hello"))
        self.assertIn("In 1492", done.stdout)
        self.assertNotIn("never", done.stdout)
        self.assertIn("warning: ", done.stderr, "an empty prompt is none")

    def test_interactive_answers_are_the_texts_of_other_prompts(self):
        # Random weights make characters that several tokens share, and bytes that are none.
        made = ["--tokens-to-generate", "60", "--greedy", "--ignore-eod"]
        talk = self.run_program("--interactive", *made, stdin="Hello\nstop\n")
        lines = self.run_program("--prompts", "Hello", *made)
        text = json.loads(lines.stdout)["text"]
        self.assertEqual(talk.stdout, f"Hello{shown(text)}\n\n")

    def with_args(self, **fields):
        """The name of a checkpoint like the others whose args say more."""
        path = os.path.join("release", "mp_rank_00", "model_optim_rng.pt")
        name = "with_args"
        shutil.rmtree(self.at(name), ignore_errors=True)
        shutil.copytree(self.at("checkpoint"), self.at(name))
        state = torch.load(os.path.join(self.at(name), path), weights_only=False)
        vars(state["args"]).update(fields)
        torch.save(state, os.path.join(self.at(name), path))
        return name

    def test_another_tokenizer_than_made_the_training_data_is_an_error(self):
        few = ["--prompts", "Hello", "--tokens-to-generate", "1", "--greedy"]
        beside = {"type": "GPT2BPETokenizer", "identity": "0" * 32, "vocab_size": 50257}
        with open(self.at("data_text_document.libmeg"), "w", encoding="utf8") as file:
            json.dump({"tokenizer": beside}, file)
        load = self.with_args(data_path=["0.5", self.at("data_text_document"), "0.5", "gone"])
        done = self.run_program(*few, load=load)
        self.assertEqual(done.returncode, 1)
        error = done.stderr.splitlines()[-1]
        self.assertIn("made with another tokenizer: expected \"GPT2BPETokenizer\" of 50257", error)
        self.assertIn("--allow-other-tokenizer", error)
        done = self.run_program(*few, "--allow-other-tokenizer", load=load)
        self.assertEqual(done.returncode, 0, done.stderr)
        # The right one: what the message says it found.
        beside["identity"] = re.findall(r"\(\"([0-9a-f]{32})\"\)", error)[-1]
        with open(self.at("data_text_document.libmeg"), "w", encoding="utf8") as file:
            json.dump({"tokenizer": beside}, file)
        done = self.run_program(*few, load=load)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_another_tokenizer_than_that_of_the_args_is_an_error(self):
        few = ["--prompts", "Hello", "--tokens-to-generate", "1", "--greedy"]
        with open(MERGES, encoding="utf8") as file:
            lines = file.readlines()
        for name, changed in (("same.txt", lines),
                              ("other.txt", [lines[0], lines[2], lines[1], *lines[3:]])):
            with open(self.at(name), "w", encoding="utf8") as file:
                file.writelines(changed)
        for name, code in (("same.txt", 0), ("other.txt", 1), ("gone.txt", 0)):
            load = self.with_args(vocab_file=VOCAB, merge_file=self.at(name))
            done = self.run_program(*few, load=load)
            self.assertEqual(done.returncode, code, done.stderr)
            if code == 1:
                self.assertIn("not the tokenizer of this checkpoint's args: expected "
                              "GPT2BPETokenizer ", done.stderr)
        load = self.with_args(vocab_file=VOCAB, merge_file=self.at("other.txt"))
        done = self.run_program(*few, "--allow-other-tokenizer", load=load)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_prompts_are_cut_and_full_ones_are_said(self):
        flags = ["--greedy", "--tokens-to-generate", "3", "--prompt-tokens", "2"]
        typed = self.run_program("--interactive", *flags, stdin="One two three\nstop\n")
        cut = self.lines_of("--prompts", "One two three", *flags)[0]
        self.assertEqual(cut["prompt_text"], "One two")
        self.assertEqual(typed.stdout, f"One two{shown(cut['text'])}\n\n")
        done = self.run_program("--prompts", "One two three", "One", "--out-seq-length", "3",
                                "--ignore-eod")
        self.assertEqual([len(json.loads(line)["ids"]) for line in done.stdout.splitlines()], [0, 2])
        self.assertIn("warning: --out-seq-length 3: 1 of 2 prompts", done.stderr)

    def test_a_model_whose_logits_are_not_finite_is_an_error_by_text_and_token(self):
        """ModelEngineTest has every value in every way of drawing; here each value once, and what the program does."""
        texts = ["--prompts", "Hello there", "In 1492"]
        for value, flags in (("nan", ["--greedy", "--micro-batch-size", "1"]), ("inf", ["--beam-width", "2"]),
                             ("-inf", ["--logprobs", "--tokens-to-generate", "0"])):
            # A token that no text has: the hidden states are finite.
            run_script(os.path.join(HERE, "hf_gpt2_to_megatron.py"), self.at("hf"),
                       self.at("broken"), "--broken-token", f"50000={value}")
            done = self.run_program(*texts, "--output", self.at("no.jsonl"), *flags, load="broken")
            self.assertEqual((done.returncode, done.stdout), (1, ""), (value, flags))
            self.assertRegex(done.stderr.splitlines()[-1],
                             r"^error: text \d: token \d: expected finite logits, found NaN or "
                             "infinity", (value, flags))
            self.assertFalse(os.path.exists(self.at("no.jsonl")))
        done = self.run_program("--interactive", stdin="Hello\nHello\n", load="broken")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("error: text 0: token 1: expected finite logits", done.stderr)

    def test_marks_and_ends_of_lines_are_no_part_of_typed_prompts(self):
        flags = ["--interactive", "--greedy", "--tokens-to-generate", "1"]
        done = self.run_program(*flags, stdin="\ufeffHello\r\nstop\r\nIn 1492\r\n")
        alone = self.run_program(*flags, stdin="Hello\nstop\n")
        self.assertEqual((done.returncode, done.stdout), (0, alone.stdout))
        self.assertIn("standard input: lines end in CR LF", done.stderr)

    def test_prompts_come_from_pipes(self):
        wanted = self.lines_of("--prompts", "Hello", "In 1492", "--greedy")
        piped = self.run_program("--prompt-file", "-", "--greedy", stdin="Hello\nIn 1492")
        self.assertEqual([json.loads(line) for line in piped.stdout.splitlines()], wanted)
        pipe = self.at("pipe.jsonl")
        os.mkfifo(pipe)
        writer = subprocess.Popen(["sh", "-c", 'echo "$0" > "$1"', '{"text": "Hello"}', pipe])
        self.assertEqual(self.lines_of("--prompt-file", pipe, "--greedy"), wanted[:1])
        self.assertEqual(writer.wait(), 0)

    def test_wrong_usage_and_wrong_prompts_are_errors(self):
        """GenerateFlagsTest and GeneratePromptsTest have all of them; here what the program makes of one of each."""
        self.assertIn("found 0", self.error_of(2))
        with open(self.at("bad.txt"), "wb") as file:
            file.write(b"good\n\xff\xfe\n")
        self.assertIn("line 2", self.error_of(1, "--prompt-file", self.at("bad.txt")))
        self.assertIn("text 0", self.error_of(1, "--prompt-file", self.at("prompts.jsonl"),
                                              "--tokens-to-generate", "128"))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
