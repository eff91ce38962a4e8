#!/usr/bin/env python3
"""pretrain_gpt as its users run it: resumed, stopped, killed, from other layouts, with wrong flags.

pretrain_gpt_test.py PRETRAIN_GPT VERIFY CHECKPOINT_UTIL CHECKPOINT_INSPECT
"""

import importlib.util
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("MEG_SHARED", ROOT.parent / "shared"))
ORACLE = SHARED / "oracle" / "training"
PRETRAIN, VERIFY, CHECKPOINT_UTIL, INSPECT = (os.path.abspath(path) for path in sys.argv[1:5])
MODEL = ("--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 "
         "--max-position-embeddings 40 --make-vocab-size-divisible-by 74").split()
RUN = ("--micro-batch-size 2 --global-batch-size 8 --lr 0.005 --min-lr 0.0005 --lr-decay-style cosine "
       "--lr-warmup-fraction 0.2 --weight-decay 0.1 --vocab-file gpt2-vocab.json --merge-file "
       "gpt2-merges.txt --split 90,8,2 --seed 42 --eval-interval 7 --eval-iters 2 --log-interval 1 "
       "--data-path data/tiny --device cpu").split()


class PretrainGpt(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def command(self, *flags):
        return [PRETRAIN, *MODEL, *RUN, "--data-cache-path", str(self.folder / "cache"),
                *map(str, flags)]

    def run_program(self, *command, code=0):
        done = subprocess.run(list(map(str, command)), cwd=ORACLE, capture_output=True, text=True,
                              timeout=300)
        self.assertEqual(done.returncode, code, done.stdout[-2000:] + done.stderr)
        return done

    def train(self, *flags, code=0):
        return self.run_program(*self.command("--train-iters", 20, *flags), code=code)

    def losses(self, text):
        return re.findall(r"iteration +(\d+)/.*lm loss: ([\d.E+-]+)", text)

    def expect_equal(self, a, b):
        self.assertIn("equal", self.run_program(VERIFY, "diff", a, b).stdout)
        self.run_program(VERIFY, "checkpoint", a)

    def test_a_resumed_run_is_the_straight_one_to_the_bit(self):
        for precision in ([], ["--bf16"], ["--fp16", "--loss-scale-window", "5"],
                          ["--target-names", "legacy", "--num-workers", "0"],
                          ["--transformer-impl", "transformer_engine"],
                          ["--ckpt-format", "torch_dist"],
                          ["--fp16", "--loss-scale-window", "5", "--ckpt-format", "torch_dist",
                           "--async-save"]):
            with self.subTest(precision=precision):
                straight, parts = self.folder / "straight", self.folder / "parts"
                whole = self.train(*precision, "--save", straight)
                self.train(*precision, "--save", parts, "--exit-interval", 10)
                rest = self.train(*precision, "--save", parts, "--load", parts)
                self.expect_equal(straight, parts)
                later = [loss for loss in self.losses(whole.stdout) if int(loss[0]) > 10]
                self.assertEqual(later, self.losses(rest.stdout))
                shutil.rmtree(straight)
                shutil.rmtree(parts)

    def test_names_of_transformer_engine_are_those_of_the_converter(self):
        local, fused, converted = (self.folder / name for name in ("local", "fused", "converted"))
        self.train("--save", local)
        self.train("--save", fused, "--transformer-impl", "transformer_engine")
        self.run_program(CHECKPOINT_UTIL, "--load-dir", local, "--save-dir", converted,
                         "--saver", "core")
        self.expect_equal(fused, converted)
        tensors = [re.findall(r"^  ((?:model|optimizer)/.*)", self.run_program(
            INSPECT, path, "--tensors").stdout, re.MULTILINE) for path in (fused, converted)]
        self.assertEqual(*tensors)
        self.assertIn("linear_qkv.layer_norm_weight", "".join(tensors[0]))
        refused = self.train("--transformer-impl", "transformer_engine", "--target-names", "legacy",
                             code=1)
        self.assertIn("--target-names legacy: expected --transformer-impl local", refused.stderr)

    def test_an_async_save_writes_the_same_checkpoint(self):
        plain, background = self.folder / "plain", self.folder / "background"
        self.train("--save", plain, "--save-interval", 5)
        saved = self.train("--save", background, "--save-interval", 5, "--async-save")
        self.assertIn(f"  successfully saved checkpoint at iteration      20 to {background}",
                      saved.stdout.splitlines())
        self.expect_equal(plain, background)
        self.assertEqual(sorted(path.name for path in plain.iterdir()),
                         sorted(path.name for path in background.iterdir()))

    def test_torch_dist_is_another_form_of_the_same_checkpoint(self):
        plain, dist = self.folder / "plain", self.folder / "dist"
        self.train("--save", plain, "--exit-interval", 10)
        saved = self.train("--save", dist, "--ckpt-format", "torch_dist", "--exit-interval", 10)
        self.expect_equal(dist, plain)
        loaded = self.train("--load", dist, "--exit-interval", 12)
        self.assertEqual(self.losses(self.train("--load", plain, "--exit-interval", 12).stdout),
                         self.losses(loaded.stdout))
        for line in (f"saving checkpoint at iteration      10 to {dist} in torch_dist format",
                     f"  successfully saved checkpoint from iteration      10 to {dist} "
                     "[ t 1/1, p 1/1 ]"):
            self.assertIn(line, saved.stdout.splitlines())
        for line in (f" loading distributed checkpoint from {dist} at iteration 10",
                     f"  successfully loaded checkpoint from {dist} [ t 1/1, p 1/1 ] at iteration 10"):
            self.assertIn(line, loaded.stdout.splitlines())

    def test_lines_about_checkpoints_are_the_named_revisions(self):
        save = self.folder / "save"
        date = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\]"
        for revision, saving, saved, loaded in (
                ("core_v0.6.0", "saving checkpoint at iteration       2 to FOLDER in torch format",
                 "  successfully saved checkpoint at iteration       2 to FOLDER", r" \[ t 0, p 0 \]"),
                ("core_v0.19.0",
                 date + " saving checkpoint at iteration       2 to FOLDER in torch format",
                 "  " + date + " successfully saved checkpoint from iteration       2 to FOLDER "
                 r"\[ t 1/1, gtp_remat 1/1, p 1/1 \]", r" \[ t 1/1, gtp_remat 1/1, p 1/1 \]")):
            named = ["--megatron-version", revision]
            done = self.train("--save", save / revision, "--exit-interval", 2, *named)
            again = self.train("--load", save / revision, "--exit-interval", 3, *named)
            folder = re.escape(str(save / revision))
            for text, line in ((done, saving), (done, saved),
                               (again, f"  successfully loaded checkpoint from FOLDER{loaded} at iteration 2")):
                self.assertRegex(text.stdout, "(?m)^" + line.replace("FOLDER", folder) + "$")

    def test_other_formats_are_refused_by_name(self):
        for flags, word in ((["--ckpt-format", "zarr"], "zarr"),
                            (["--ckpt-format", "torch_dcp"], "torch_dcp"),
                            (["--use-dist-ckpt"], "--use-dist-ckpt"),
                            (["--dist-ckpt-format", "torch_dist"], "--dist-ckpt-format")):
            refused = self.run_program(*self.command("--train-iters", 1, *flags), code=1)
            self.assertIn(word, refused.stderr.splitlines()[0])
        refused = self.train("--ckpt-format", "torch_dist", "--target-names", "legacy", code=1)
        self.assertIn("ckpt_format: expected torch with legacy names", refused.stderr)

    def test_a_run_goes_on_from_another_layout(self):
        start = ORACLE / "gpt_fp32" / "start"
        cut = self.folder / "tp2pp2"
        self.run_program(CHECKPOINT_UTIL, "--model-type", "GPT", "--load-dir", start, "--save-dir",
                         cut, "--target-tensor-parallel-size", 2,
                         "--target-pipeline-parallel-size", 2)
        whole = self.train("--load", start)
        self.assertEqual(self.losses(whole.stdout), self.losses(self.train("--load", cut).stdout))

    def test_a_checkpoint_may_say_what_the_model_is(self):
        for name, steps in (("gpt_fp32", 20), ("gpt_llamaish_fp32", 10)):
            start = ORACLE / name / "start"
            run = [PRETRAIN, *RUN, "--seq-length", "32", "--data-cache-path", self.folder / "cache",
                   "--train-iters", steps, "--exit-interval", 1, "--load", start,
                   "--use-checkpoint-args",
                   "--megatron-version", "6ef5bdc", "--hidden-dropout", 0,
                   "--attention-dropout", 0]
            first = self.losses(self.run_program(*run).stdout)[0]
            log = json.loads(re.sub(r"-?\b(Infinity|NaN)\b", "null",
                                    (ORACLE / name / "log.json").read_text()))
            self.assertAlmostEqual(float(first[1]), log["iterations"][0]["lm_loss"], delta=2e-5)

    def test_old_names_of_the_schedulers_flags_act(self):
        save = self.folder / "save"
        self.train("--save", save, "--exit-interval", 10)
        rest = ["--load", save, "--exit-interval", 11, "--lr", 0.004]
        self.assertIn("learning rate", self.train(*rest, code=1).stderr)
        rates = {flag: re.findall(r"learning rate: ([\d.E+-]+)", self.train(*rest, flag).stdout)
                 for flag in ("--override-lr-scheduler", "--override-opt_param-scheduler",
                              "--use-checkpoint-lr-scheduler", "--use-checkpoint-opt_param-scheduler")}
        override, new_override, use, new_use = rates.values()
        self.assertEqual(override, new_override)
        self.assertEqual(use, new_use)
        self.assertNotEqual(override, use)

    def test_the_first_run_may_load_where_it_saves(self):
        save = self.folder / "save"
        done = self.train("--load", save, "--save", save)
        self.assertIn("WARNING: could not find the metadata file", done.stdout)
        self.assertIn("will start from random", done.stdout)
        failed = self.train("--load", self.folder / "none", "--exit-on-missing-checkpoint", code=1)
        self.assertTrue(failed.stderr.splitlines()[-1].startswith("error: "))

    def test_a_signal_ends_the_step_and_saves(self):
        save = self.folder / "save"
        run = subprocess.Popen(self.command("--train-iters", 100000, "--save", save), cwd=ORACLE,
                               stdout=subprocess.PIPE, text=True)
        for line in run.stdout:
            if " iteration " in line:
                break
        run.send_signal(signal.SIGTERM)
        rest = run.stdout.read()
        run.stdout.close()
        self.assertEqual(run.wait(timeout=60), -signal.SIGTERM)
        self.assertIn("successfully saved checkpoint", rest)
        self.run_program(VERIFY, "checkpoint", save)

    def test_a_kill_during_saves_leaves_a_whole_checkpoint(self):
        save = self.folder / "save"
        for wait in (0.0, 0.05, 0.15):
            run = subprocess.Popen(
                self.command("--train-iters", 100000, "--save", save, "--save-interval", 1),
                cwd=ORACLE, stdout=subprocess.PIPE, text=True)
            for line in run.stdout:
                if "successfully saved" in line:
                    break
            time.sleep(wait)
            run.kill()
            run.stdout.close()
            run.wait()
            self.run_program(VERIFY, "checkpoint", save)

    def test_plain_pytorch_gets_the_same_losses(self):
        peer = SHARED / "bench" / "peer_train.py"
        if importlib.util.find_spec("torch") is None or not peer.exists():
            self.skipTest("torch or peer_train.py was not found")
        start = ORACLE / "gpt_fp32" / "start"
        flags = ["--seq-length", "32", "--micro-batch-size", "2", "--global-batch-size", "4",
                 "--train-iters", "20", "--lr", "5e-3", "--min-lr", "5e-4", "--weight-decay", "0.1"]
        ours = self.run_program(*self.command(
            *flags, "--load", start, "--split", "100,0,0", "--lr-warmup-fraction", 0,
            "--eval-iters", 0, "--hidden-dropout", 0, "--attention-dropout", 0))
        index = next((self.folder / "cache").glob("*-train-document_index.npy"))
        indices = [word for kind in ("document", "sample", "shuffle")
                   for word in (f"--{kind}-index", str(index).replace("document_index", f"{kind}_index"))]
        theirs = self.run_program(
            sys.executable, peer, "--checkpoint",
            start / "release" / "mp_rank_00" / "model_optim_rng.pt", "--tokens", "data/tiny",
            *indices, *flags)
        expected = re.findall(r"iteration (\d+) lm_loss ([\d.]+) grad_norm ([\d.]+)", theirs.stdout)
        found = re.findall(r"iteration +(\d+)/.*lm loss: ([\d.E+-]+).*grad norm: ([\d.]+)", ours.stdout)
        self.assertEqual(len(found), 20)
        for one, other in zip(found, expected):
            self.assertEqual(one[0], other[0])
            self.assertAlmostEqual(float(one[1]), float(other[1]), delta=1e-5 * float(other[1]))
            self.assertAlmostEqual(float(one[2]), float(other[2]), delta=1e-3)

    def test_event_files_hold_the_losses(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError:
            self.skipTest("tensorboard is not installed")
        folder = self.folder / "events"
        done = self.train("--tensorboard-dir", folder)
        events = EventAccumulator(str(folder))
        events.Reload()
        points = {point.step: point.value for point in events.Scalars("lm loss")}
        printed = self.losses(done.stdout)
        self.assertEqual(len(points), len(printed))
        for step, loss in printed:
            self.assertAlmostEqual(points[int(step)], float(loss), delta=1e-6 * float(loss))
        self.assertIn("lm loss validation", events.Tags()["scalars"])

    def test_openmp_waits_as_the_environment_says_else_passively(self):
        """A single thread waits for none: its process does not restart."""
        command = [*map(str, self.command("--train-iters", 1, "--eval-iters", 0))]
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS")}
        for given, loads in (({}, 2), ({"OMP_NUM_THREADS": "2"}, 2), ({"OMP_NUM_THREADS": "1"}, 1),
                             ({"OMP_WAIT_POLICY": "active"}, 1)):
            done = subprocess.run(command, cwd=ORACLE, capture_output=True, text=True,
                                  env={**environment, "OMP_DISPLAY_ENV": "verbose", **given})
            self.assertEqual(done.returncode, 0, done.stderr)
            spins = re.findall(r"GOMP_SPINCOUNT *= *'(\w+)'", done.stderr)
            if not spins:
                self.skipTest("another OpenMP than GNU's")
            self.assertEqual(len(spins), loads)
            self.assertEqual(spins[-1] == "0", loads == 2)
            self.assertEqual(len(self.losses(done.stdout)), 1)

    def test_made_up_data_and_tokens_need_no_files(self):
        done = self.run_program(PRETRAIN, *MODEL, "--mock-data", "--tokenizer-type", "NullTokenizer",
                                "--vocab-size", 295, "--micro-batch-size", 2, "--train-iters", 3,
                                "--lr", 1e-3, "--eval-iters", 1, "--log-interval", 1, "--device",
                                "cpu")
        self.assertIn("(new size: 296)", done.stdout)
        self.assertEqual(len(self.losses(done.stdout)), 3)

    def test_null_tokenizers_vocabulary_is_that_of_the_runs_revision(self):
        for revision, tokens in (("core_v0.19.0", 295), ("core_v0.17.0", 296)):
            save = self.folder / revision
            self.run_program(PRETRAIN, *MODEL, "--mock-data", "--tokenizer-type", "NullTokenizer",
                             "--vocab-size", 295, "--micro-batch-size", 2, "--train-iters", 1,
                             "--lr", "0.001", "--eval-iters", 0, "--make-vocab-size-divisible-by", 8,
                             "--data-cache-path", self.folder / "cache", "--device", "cpu",
                             "--save", save, "--megatron-version", revision)
            answer = json.loads(self.run_program(INSPECT, save, "--args", "--json").stdout)
            self.assertEqual((answer["true_vocab_size"], answer["padded_vocab_size"]), (tokens, 296))
            self.assertEqual(answer["parameters"] - answer["unpadded_parameters"],
                             32 * (296 - tokens))
            args = {arg["name"]: arg["text"] for arg in answer["args"]}
            self.assertEqual(args["vocab_size"], "295")  # the flag, as Megatron keeps it
            exported = self.folder / "hf"
            self.run_program(CHECKPOINT_UTIL, "--load-dir", save, "--save-dir", exported,
                             "--target-format", "huggingface")
            self.assertEqual(json.loads((exported / "config.json").read_text())["vocab_size"], tokens)
            shutil.rmtree(exported)

    def test_times_and_memory_are_said_in_megatrons_lines(self):
        done = self.train("--timing-log-level", 2, "--save", self.folder / "save",
                          "--deterministic-mode", "--log-interval", 10)
        times = re.findall(r"^    ([\w/-]+) \.+: \((\d+\.\d\d), (\d+\.\d\d)\)$", done.stdout, re.M)
        self.assertEqual([name for name, *_ in times],
                         ["model-and-optimizer-setup", "train/valid/test-data-iterators-setup",
                          "evaluate", "forward-backward", "batch-generator", "optimizer", "evaluate",
                          "forward-backward", "batch-generator", "optimizer", "save-checkpoint",
                          "evaluate", "evaluate"])
        self.assertTrue(all(least == most for _, least, most in times))
        memory = re.findall(r"^(Theoretical memory footprints: .*|\[Rank 0\] .*)$", done.stdout, re.M)
        self.assertRegex(memory[0], r"weight and optimizer=\d+\.\d\d MB")
        self.assertRegex(memory[1], r"\(after 10 iterations\) memory \(MB\) \| max resident: \d+\.\d\d")
        self.assertEqual(len(memory), 2)

    def test_too_little_memory_says_what_to_lower(self):
        limit = 3 << 30
        command = self.command("--train-iters", 1, "--num-layers", 24, "--hidden-size", 2048)
        done = subprocess.run(list(map(str, command)), cwd=ORACLE, capture_output=True, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS,
                                                                    (limit, limit)))
        self.assertEqual(done.returncode, 1)
        last = done.stderr.splitlines()[-1]
        self.assertRegex(last, r"^error: .*memory.*estimated: \d+ MB for weights and optimizer, "
                               r"\d+ MB for the layers' activations: lower --micro-batch-size")

    def test_a_full_disk_leaves_the_checkpoint_before(self):
        save = self.folder / "save"
        self.train("--save", save, "--exit-interval", 10)
        before = sorted(path.name for path in save.iterdir())
        command = self.command("--train-iters", 20, "--save", save, "--load", save)
        done = subprocess.run(list(map(str, command)), cwd=ORACLE, capture_output=True, text=True,
                              preexec_fn=self.allow_small_files_only)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1], r"^error: .*(File too large|No space left)")
        self.assertNotIn("--micro-batch-size", done.stderr)
        self.assertEqual(sorted(path.name for path in save.iterdir()), before)
        self.run_program(VERIFY, "checkpoint", save)

    def allow_small_files_only(self, most=200000):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    def test_a_full_disk_of_event_files_is_said_once(self):
        whole = self.command("--train-iters", 200, "--tensorboard-dir", self.folder / "events")
        self.run_program(*whole, "--exit-interval", 1)  # leaves the index caches, which are larger
        done = subprocess.run(whole, cwd=ORACLE, capture_output=True, text=True,
                              preexec_fn=lambda: self.allow_small_files_only(3000))
        self.assertEqual(done.returncode, 0, done.stderr)
        warnings = re.findall(r"^WARNING: .*no further TensorBoard events are written$", done.stdout, re.M)
        self.assertEqual(len(warnings), 1, warnings)
        self.assertRegex(warnings[0], r"events\.out\.tfevents.*: File too large")
        self.assertEqual(len(self.losses(done.stdout)), 200)

    def test_full_validation_sees_every_sample_each_time(self):
        save = self.folder / "save"
        still = ["--split", "50,45,5", "--lr", 0, "--min-lr", 0, "--hidden-dropout", 0, "--attention-dropout", 0,
                 "--load", ORACLE / "gpt_fp32" / "start"]
        done = self.train("--full-validation", "--save", save, *still)
        found = re.findall(r"validation loss at iteration (\d+)( on validation set)? \| "
                           r"lm loss value: ([\d.E+-]+)", done.stdout)
        self.assertEqual([iteration for iteration, *_ in found], ["7", "14", "20"])
        self.run_program(VERIFY, "checkpoint", save)
        # The same samples in order, one a step.
        index = next((self.folder / "cache").glob("*-valid-shuffle_index.npy")).read_bytes()
        samples = int(re.search(rb"'shape': \((\d+),", index).group(1))
        self.assertGreater(samples, 2 * 8)
        one_by_one = self.train("--skip-train", "--micro-batch-size", 1, "--global-batch-size", 1,
                                "--eval-iters", samples, *still)
        expected = re.search(r"on validation set \| lm loss value: ([\d.E+-]+)", one_by_one.stdout)
        for *_, loss in found:
            self.assertAlmostEqual(float(loss), float(expected.group(1)), delta=1e-5)

    def test_wrong_runs_say_what_is_wrong(self):
        cases = [
            (["--num-attention-heads", 5], 1, "hidden_size"),
            (["--global-batch-size", 7], 1, "7"),
            (["--eval-global-batch-size", 1], 1, "--eval-global-batch-size: expected a multiple of 2"),
            (["--eval-global-batch-size", 5], 1, "--eval-global-batch-size: expected a multiple of 2"),
            (["--eval-micro-batch-size", 3], 1, "of an evaluation: expected a multiple of 3"),
            (["--fp16", "--bf16"], 2, "--fp16 and --bf16"),
            (["--hidden-size", 64, "--load", ORACLE / "gpt_fp32" / "start"], 1,
             "hidden_size: expected 64, found 32"),
            (["--seq-length", 41], 1, "max_position_embeddings: expected at least the sequence length 41"),
            (["--vocab-file", "none.json"], 1, "none.json"),
            (["--make-vocab-size-divisible-by", 8, "--tokenizer-type", "NullTokenizer",
              "--vocab-size", 100], 1, "data/tiny: expected token ids"),
            (["--lr-decay-style", "steep"], 2, "--lr-decay-style"),
            (["--eval-interval", 0], 1, "--eval-interval: expected at least 1, found 0"),
            (["--train-iters", 0], 1, "--train-iters: expected 1 or more, found 0"),
            (["--adam-beta1", 1], 1, "--adam-beta1: expected 0 to less than 1, found 1"),
            (["--position-embedding-type", "rope", "--kv-channels", 5], 1, "rotary channels: expected"),
        ]
        for flags, code, message in cases:
            with self.subTest(flags=flags):
                last = self.train(*flags, code=code).stderr.splitlines()[-1]
                self.assertTrue(last.startswith("error: "), last)
                self.assertIn(message, last)


if __name__ == "__main__":
    if not ORACLE.exists():
        print(f"skipped: not found: {ORACLE}", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
