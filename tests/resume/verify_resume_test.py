#!/usr/bin/env python3
"""verify resume and verify run as their users run them: plans, wrong input, whole logs.

verify_resume_test.py BIN [unittest arguments]
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = os.path.abspath(sys.argv.pop(1))
RUN = ("--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "
       "--hidden-dropout 0 --attention-dropout 0 --micro-batch-size 2 --global-batch-size 4 --train-iters 20 --lr 0.01 "
       "--min-lr 0.001 --lr-decay-style cosine --lr-warmup-iters 2 --weight-decay 0.1 --log-interval 1 --eval-iters 0 "
       "--seed 7 --mock-data --tokenizer-type NullTokenizer --vocab-size 64 --device cpu").split()


class VerifyResume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.first = cls.run_program("pretrain_gpt", *RUN, "--save", "ckpt", "--save-interval", 5, "--exit-interval", 10).stdout
        (cls.folder / "first.log").write_text(cls.first)
        (cls.folder / "good.log").write_text(cls.run_program("pretrain_gpt", *RUN, "--load", "ckpt").stdout)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def run_program(cls, program, *arguments, code=0):
        done = subprocess.run([os.path.join(BIN, program), *map(str, arguments)], cwd=cls.folder, capture_output=True,
                              text=True, timeout=300)
        if done.returncode != code:
            raise AssertionError(f"{program} {arguments}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
        return done

    def plan(self, *flags, code=0):
        done = self.run_program("verify", "resume", "--dry-run", "--json", *flags, code=code)
        return json.loads(done.stdout) if code == 0 else done.stderr.splitlines()[-1]

    def test_the_plan_has_the_rates_and_samples_that_the_run_prints(self):
        for flags in ((), ("--lr", "0.02", "--override-opt_param-scheduler"), ("--no-load-optim",), ("--finetune",),
                      ("--ckpt-step", 5), ("--global-batch-size", 8, "--override-opt_param-scheduler")):
            with self.subTest(flags):
                plan = self.plan("--load", "ckpt", *flags)
                given = RUN + list(map(str, flags))
                log = self.run_program("pretrain_gpt", *given, "--load", "ckpt").stdout
                printed = [(int(step), int(samples), f"{float(rate):.6E}", int(batch)) for step, samples, rate, batch in
                           re.findall(r"iteration +(\d+)/.*?samples: +(\d+) .*?rate: (\S+) \| global batch size: +(\d+)", log)]
                planned = [(step["iteration"], step["first_sample"] + step["global_batch_size"],
                            f"{step['logged_learning_rate']:.6E}", step["global_batch_size"]) for step in plan["steps"]]
                self.assertEqual(len(planned), 4)
                self.assertEqual(planned, printed[:4])

    def test_the_plan_warns_of_what_is_not_taken(self):
        parts = {part["part"]: part["from"] for part in self.plan("--load", "ckpt")["parts"]}
        self.assertEqual((parts["moments"], parts["random states"]), ("checkpoint", "checkpoint"))
        plan = self.plan("--load", "ckpt", "--no-load-optim", "--no-load-rng", "--seed", 8)
        parts = {part["part"]: part["from"] for part in plan["parts"]}
        self.assertEqual((parts["moments"], parts["random states"]), ("made new", "made new"))
        self.assertIn("flags", parts["schedule of rates"])
        said = " ".join(plan["warnings"])
        for warned in ("--no-load-optim", "--no-load-rng"):
            self.assertIn(warned, said)
        self.assertEqual([(change["flag"], change["checkpoint"], change["run"]) for change in plan["changes"]],
                         [("--seed", "7", "8")])

    def test_a_command_line_with_a_model_means_what_it_means_to_the_trainer(self):
        plan = self.plan(*RUN[:-2], "--load", "ckpt")
        self.assertEqual(plan["flags"], "the flags of the command line")
        self.assertEqual(plan["changes"], [])
        without = [word for word in RUN[:-2] if word not in ("--seed", "7")]
        self.assertEqual([(change["flag"], change["run"]) for change in self.plan(*without, "--load", "ckpt")["changes"]],
                         [("--seed", "1234")])
        # As the trainer refuses it.
        without = [word for word in RUN[:-2] if word not in ("--weight-decay", "0.1")]
        self.assertIn("expected the checkpoint's 0.1, found 0.01", self.plan(*without, "--load", "ckpt", code=2))

    def test_a_resumed_run_is_equal_and_a_log_that_goes_through_it_too(self):
        for flags in (("--log", "good.log"), ("--log", "first.log", "--ckpt-step", 5)):
            done = self.run_program("verify", "resume", "--load", "ckpt", *flags, "--device", "cpu")
            self.assertEqual(done.stdout.splitlines()[-1], "equal")

    def sampled(self, log, *flags, code=0):
        done = self.run_program("verify", "resume", "--load", "ckpt", "--log", log, "--device", "cpu", "--json", *flags,
                                code=code)
        return json.loads(done.stdout)

    def test_samples_of_a_batch_say_how_sure_they_are(self):
        wanted = {(figure["iteration"], figure["figure"]): figure["computed"]
                  for figure in self.sampled("good.log")["figures"]}[11, "lm loss"]
        margins = []
        for count in (2, 3, 4):
            answer = self.sampled("good.log", "--batch-samples", count)
            self.assertTrue(answer["equal"])
            self.assertEqual({figure["figure"] for figure in answer["figures"]},
                             {"consumed samples", "global batch size", "lm loss"})
            told = answer["sampled"]
            self.assertEqual((told["samples"], told["batch_size"], told["confidence"]), (count, 4, 0.9999))
            self.assertIn("grad norm", told["not_compared"])
            self.assertIn("later steps", told["not_compared"])
            self.assertLessEqual(abs(told["lm_loss"] - wanted), told["margin"] + 1e-6 * wanted)
            margins.append(told["margin"])
        self.assertTrue(margins[0] > margins[1] > margins[2] == 0)
        # The whole batch, layer by layer, has the loss of the trainer.
        self.assertAlmostEqual(told["lm_loss"] / wanted, 1, delta=1e-6)
        text = self.run_program("verify", "resume", "--load", "ckpt", "--log", "good.log", "--device", "cpu",
                                "--batch-samples", 3).stdout
        self.assertIn("samples: 3 of the 4 sequences of the first step's batch", text)
        self.assertIn("not compared: learning rate, loss scale, grad norm, number of skipped iterations, later steps\n",
                      text)
        self.assertRegex(text.splitlines()[-1], "^equal, as far as 3 of 4 sequences tell: a loss that is off by less than")

    def test_samples_find_what_changes_the_first_loss(self):
        text = (self.folder / "good.log").read_text()
        risen = re.sub(r"(iteration +11/.*lm loss: )(\S+)", lambda found: f"{found[1]}{40 * float(found[2]):.6E}", text)
        (self.folder / "other.log").write_text(risen)
        answer = self.sampled("other.log", "--batch-samples", 3, code=1)
        self.assertFalse(answer["equal"])
        self.assertEqual([figure["figure"] for figure in answer["figures"] if figure["misfit"] > 1], ["lm loss"])
        self.assertEqual(answer["causes"], [])
        self.assertIn("moments-zeroed", answer["not_tried"])
        seeded = self.run_program("pretrain_gpt", *RUN, "--load", "ckpt", "--seed", 8, "--exit-interval", 11).stdout
        (self.folder / "other.log").write_text(seeded)
        self.assertEqual(self.sampled("other.log", "--batch-samples", 4, code=1)["causes"], ["other-seed"])

    def test_samples_that_tell_nothing_are_errors(self):
        # As Megatron prints up to core_v0.15.
        lines = self.run_program("pretrain_gpt", *RUN, "--load", "ckpt", "--log-interval", 2).stdout.splitlines(keepends=True)
        (self.folder / "two.log").write_text("".join(line for line in lines if " 11/" not in line))
        for flags, said in ((("--batch-samples", 5), "--batch-samples: expected 1 to the 4 sequences of the batch, found 5"),
                            (("--batch-samples", 1), "--batch-samples: expected at least 2 of the 4 sequences of the batch, found 1"),
                            (("--batch-samples", 0), "--batch-samples"),
                            (("--batch-samples", 2, "--steps", 2), "--steps: expected 1 with --batch-samples"),
                            (("--batch-samples", 2, "--dataloader-type", "cyclic"), "dataloader_type: expected single"),
                            (("--batch-samples", 2, "--dry-run"), "--batch-samples: expected none with --dry-run"),
                            (("--batch-samples", 2, "--log", "two.log"), "--batch-samples: expected a line with the loss of iteration 11 alone, "
                                                            "found the mean up to iteration 12")):
            with self.subTest(flags):
                flags = flags if "--log" in flags else ("--log", "good.log", *flags)
                flags = flags if "--dry-run" in flags else ("--device", "cpu", *flags)
                done = self.run_program("verify", "resume", "--load", "ckpt", *flags, code=2)
                self.assertIn(said, done.stderr.splitlines()[-1])
                self.assertEqual(done.stdout, "")

    def test_random_states_that_were_not_loaded_are_found(self):
        """libmeg saves those of its runs on a CPU."""
        run = [word if before not in ("--hidden-dropout", "--attention-dropout") else "0.1"
               for before, word in zip(["", *RUN], RUN)]
        self.run_program("pretrain_gpt", *run, "--save", "dropping", "--save-interval", 5, "--exit-interval", 5)
        for flags, causes in (((), []), (("--no-load-rng",), ["random-states-restarted"])):
            (self.folder / "dropping.log").write_text(
                self.run_program("pretrain_gpt", *run, "--load", "dropping", *flags).stdout)
            done = self.run_program("verify", "resume", "--load", "dropping", "--log", "dropping.log", "--device", "cpu",
                                    "--json", code=1 if causes else 0)
            self.assertEqual(json.loads(done.stdout)["causes"], causes)

    def test_what_cannot_be_judged_is_an_error_of_its_own(self):
        (self.folder / "other.log").write_text("step 1 loss 2.5\n")
        later = re.sub(r"iteration +(\d+)/", lambda found: f"iteration {int(found[1]) + 50:8d}/",
                       (self.folder / "good.log").read_text())
        (self.folder / "later.log").write_text(later.replace("at iteration 10", "at iteration 60"))
        for flags, said in ((("--log", "first.log"), "found the last of iteration 10"),
                            (("--log", "later.log"), "found the next of iteration 61"),
                            (("--log", "other.log"), "expected lines such as"),
                            (("--log", "none.log"), "none.log"),
                            ((), "expected one of --log and --tensorboard, found neither"),
                            (("--log", "good.log", "--tensorboard", "."), "found both"),
                            (("--tensorboard", "ckpt"), "expected event files"),
                            (("--log", "good.log", "--ckpt-step", 4), "iter_0000004"),
                            (("--log", "good.log", "--hidden-size", 64), "hidden_size")):
            with self.subTest(flags):
                done = self.run_program("verify", "resume", "--load", "ckpt", "--device", "cpu", *flags, code=2)
                self.assertIn(said, done.stderr.splitlines()[-1])
        self.assertIn("--load", self.run_program("verify", "resume", "--log", "good.log", code=2).stderr.splitlines()[-1])

    def test_nothing_is_left_beside_the_run(self):
        before = sorted(str(path) for path in self.folder.rglob("*"))
        (self.folder / "bad.log").write_text(self.run_program("pretrain_gpt", *RUN, "--load", "ckpt", "--seed", 8).stdout)
        done = self.run_program("verify", "resume", "--load", "ckpt", "--log", "bad.log", "--device", "cpu", code=1)
        self.assertIn("cause: the samples are those of --seed 8, not 7", done.stdout)
        self.assertIn("the samples are those of --seed 8, not 7", done.stderr.splitlines()[-1])
        os.remove(self.folder / "bad.log")
        self.assertEqual(sorted(str(path) for path in self.folder.rglob("*")), before)

    def test_whole_logs_are_read(self):
        (self.folder / "both.log").write_text(self.first + (self.folder / "good.log").read_text())
        self.assertIn("ok (20 lines, 2 runs)", self.run_program("verify", "run", "both.log").stdout)
        five = self.run_program("pretrain_gpt", *RUN, "--load", "ckpt", "--ckpt-step", 5, "--exit-interval", 8).stdout
        (self.folder / "again.log").write_text(self.first + five)
        done = self.run_program("verify", "run", "again.log", "--json", code=1)
        found = json.loads(done.stdout)["findings"]
        self.assertEqual([(each["kind"], each["first_iteration"], each["last_iteration"]) for each in found],
                         [("repeated", 6, 10)])
        self.assertIn("differ by 0.0e+00", found[0]["text"])
        self.run_program("verify", "run", "none.log", code=2)


    def test_a_page_has_the_curves_and_where_something_was_found(self):
        name = "<b>&.log"
        lines = (self.first + (self.folder / "good.log").read_text()).splitlines(keepends=True)
        (self.folder / name).write_text("".join(line for line in lines if " 15/" not in line))
        done = self.run_program("verify", "run", name, "--html", "run.html", code=1)
        self.assertIn("note: wrote run.html", done.stderr)
        page = (self.folder / "run.html").read_text()
        self.assertIn("<title>&lt;b&gt;&amp;.log</title>", page)
        for title in ("lm loss", "grad norm", "learning rate", "elapsed time per iteration (ms)"):
            self.assertIn(f"<h2>{title}</h2>", page)
        # Two runs; the gap has a mark on each picture.
        curves = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
        self.assertEqual({picture.count("<polyline") for picture in curves}, {2})
        self.assertEqual({picture.count("class=found") for picture in curves}, {1})
        self.assertRegex(page, r"<td>gap</td>.*<td class=number>15</td>")
        self.assertNotIn("<script", page)
        os.remove(self.folder / name)
        os.remove(self.folder / "run.html")
        before = (self.folder / "good.log").read_text()
        said = self.run_program("verify", "run", "good.log", "--html", "./good.log", code=2).stderr
        self.assertIn("expected another file than the log", said)
        self.assertEqual((self.folder / "good.log").read_text(), before)


if __name__ == "__main__":
    unittest.main()
