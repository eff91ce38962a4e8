#!/usr/bin/env python3
"""pretrain_gpt on several ranks, as its users start it: alike, resumed, with mistakes, killed.

pretrain_ranks_test.py PRETRAIN_GPT VERIFY
"""

import importlib.util
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import unittest

from launched_ranks import ORACLE, TIMEOUT, LaunchedRanks, RankProcesses

PRETRAIN, VERIFY = (os.path.abspath(path) for path in sys.argv[1:3])
WITHOUT_DROPOUT = "--attention-dropout 0 --hidden-dropout 0".split()


class Ranks(LaunchedRanks):
    program = PRETRAIN

    def copy_of_data(self, name):
        folder = self.folder / name
        for file in ("gpt2-vocab.json", "gpt2-merges.txt", "data/tiny.idx", "data/tiny.bin"):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ORACLE / file, folder / file)
        return folder

    def test_torchrun_trains_as_one_rank_does(self):
        flags = [*WITHOUT_DROPOUT, "--train-iters", 3]
        alone = subprocess.run(self.command(*flags), cwd=ORACLE, capture_output=True, text=True,
                               timeout=TIMEOUT)
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr",
                    "127.0.0.1", "--nproc-per-node", "2", "--no-python"]
        both = subprocess.run([*torchrun, *self.command(*flags, "--distributed-backend", "nccl")],
                              cwd=ORACLE, capture_output=True, text=True, timeout=TIMEOUT,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual((alone.returncode, both.returncode), (0, 0), both.stdout + both.stderr)
        self.assertEqual(both.stdout.count("using world size: 2, data-parallel size: 2"), 1)
        self.assertEqual(both.stderr.count("note: --distributed-backend nccl"), 1, both.stderr)
        found, expected = self.losses(both.stdout), self.losses(alone.stdout)
        self.assertEqual(len(found), 3)
        for one, other in zip(found, expected, strict=True):
            self.assertAlmostEqual(one / other, 1, delta=2e-6)

    def test_a_resumed_run_is_the_straight_one_to_the_bit(self):
        """With dropout, whose states differ between ranks."""
        for shape in ("--tensor-model-parallel-size 2 --sequence-parallel",
                      "--pipeline-model-parallel-size 2 --bf16",
                      "--use-distributed-optimizer --bf16"):
            with self.subTest(shape=shape):
                self.run_program(VERIFY, "diff", *self.save_in_parts(shape, 2, *shape.split()))

    def test_full_validation_sees_every_sample_once_on_any_ranks(self):
        flags = [*WITHOUT_DROPOUT, "--train-iters", 1, "--full-validation", "--eval-interval", 1]
        alone = subprocess.run(self.command(*flags), cwd=ORACLE, capture_output=True, text=True,
                               timeout=TIMEOUT)
        loss = re.compile(r"validation loss at iteration 1 .* lm loss value: ([\d.E+-]+)")
        expected = float(loss.search(alone.stdout)[1])
        pp2 = ["--pipeline-model-parallel-size", 2]
        for ranks, shape in ((2, []), (2, pp2),
                             (2, [*pp2, "--num-virtual-stages-per-pipeline-rank", 2])):
            with self.subTest(shape=shape):
                found = float(loss.search(self.train(ranks, *flags, *shape))[1])
                self.assertAlmostEqual(found / expected, 1, delta=2e-6)

    def test_another_flag_on_one_rank_is_named_once(self):
        codes, _, err = self.end(self.start(2, "--train-iters", 1, of_rank={1: ["--lr", "0.006"]}))
        self.assertEqual(codes, [1, 1])
        self.assertEqual(self.errors(err), [
            "rank 1: command line: expected --lr 0.005 as on rank 0, found --lr 0.006"])

    def test_own_flags_are_compared_as_well(self):
        for flags, expected, found in (
                (["--no-extra-token"], "--no-extra-token False", "--no-extra-token True"),
                (["--no-drop-last-partial-validation-sequence"],
                 "--no-drop-last-partial-validation-sequence False",
                 "--no-drop-last-partial-validation-sequence True"),
                (["--samples", "8,8,8"], "--samples None", "--samples 8,8,8"),
                (["--megatron-version", "core_v0.4.0"], "--megatron-version None",
                 "--megatron-version core_v0.4.0"),
                (["--target-names", "legacy"], "--target-names None", "--target-names legacy")):
            with self.subTest(flags=flags):
                codes, _, err = self.end(self.start(2, "--train-iters", 1, of_rank={1: flags}))
                self.assertEqual(codes, [1, 1])
                self.assertEqual(self.errors(err), [
                    f"rank 1: command line: expected {expected} as on rank 0, found {found}"])

    def test_long_values_are_compared_to_their_end(self):
        of_rank = {rank: ["--tokenizer-model", "x" * 50 + end] for rank, end in enumerate("ab")}
        codes, _, err = self.end(self.start(2, "--train-iters", 1, of_rank=of_rank))
        self.assertEqual(codes, [1, 1])
        self.assertRegex(self.errors(err)[0], "command line: .*xa as on rank 0, .*xb$")

    def test_another_checkpoint_on_one_rank_is_named(self):
        self.save("save", 1, *WITHOUT_DROPOUT, "--train-iters", 2, "--save-interval", 1)
        folders = {rank: self.copy_of_data(f"rank{rank}") for rank in (0, 1)}
        for rank, folder in folders.items():
            shutil.copytree(self.folder / "save", folder / "save")
            (folder / "save/latest_checkpointed_iteration.txt").write_text(str(2 - rank))
        codes, _, err = self.end(self.start(
            2, *WITHOUT_DROPOUT, "--train-iters", 3, "--load", "save", "--override-opt_param-scheduler",
            folders=folders))
        self.assertEqual(codes, [1, 1])
        self.assertEqual(self.errors(err), [
            "rank 1: data: expected iteration 2 after 16 training and 0 validation samples as on rank "
            "0, found iteration 1 after 8 training and 0 validation samples"])

    def test_what_is_ignored_is_said_once(self):
        _, _, err = self.end(self.start(2, *WITHOUT_DROPOUT, "--train-iters", 1, "--wandb-project", "x"))
        self.assertEqual(err.count("note: ignored: --wandb-project"), 1, err)

    def test_a_closed_pipe_ends_all_without_frames_of_a_stack(self):
        """Of rank 0, with which the store ends that it hosts."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        processes = []
        for rank in range(2):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                           "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                           "OMP_NUM_THREADS": "1"}
            processes.append(subprocess.Popen(
                self.command("--train-iters", 1000000), cwd=ORACLE, env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            self.addCleanup(processes[-1].kill)
        processes[0].stdout.close()
        processes[0].stdout = None
        codes, written = RankProcesses.end(processes)
        err = "".join(text for _, text in written)
        self.assertEqual(codes, [-signal.SIGPIPE, 1], err)
        self.assertNotIn("frame #", err)
        self.assertEqual(len(self.errors(err)), 1, err)

    def test_other_data_on_one_rank_is_named_once(self):
        elsewhere = self.copy_of_data("elsewhere")
        data = bytearray((elsewhere / "data/tiny.bin").read_bytes())
        data[len(data) // 2] ^= 1
        (elsewhere / "data/tiny.bin").write_bytes(data)
        codes, _, err = self.end(self.start(2, "--train-iters", 1, folders={1: elsewhere}))
        self.assertEqual(codes, [1, 1])
        self.assertEqual(len(self.errors(err)), 1, err)
        self.assertRegex(self.errors(err)[0], "^rank 1: data: expected data/tiny of .* as on rank 0, found data/tiny of ")

    def test_other_weights_in_a_list_of_data_are_named(self):
        folders = {rank: self.copy_of_data(f"rank{rank}") for rank in (0, 1)}
        for rank, folder in folders.items():
            (folder / "list").write_text(f"{rank + 1} data/tiny 3 data/tiny")
        command = self.command("--train-iters", 1, "--data-args-path", "list")
        at = command.index("--data-path")
        codes, _, err = self.end(RankProcesses(self).start(
            2, command[:at] + command[at + 2:], None, folders))
        self.assertEqual(codes, [1, 1])
        self.assertRegex(self.errors(err)[0],
                         "^rank 1: data: expected data/tiny of .* with weight 1 for all splits as on rank 0, "
                         "found data/tiny of .* with weight 2 for all splits$")

    def test_ranks_that_do_not_fit_are_an_error(self):
        codes, _, err = self.end(self.start(3, "--train-iters", 1, "--tensor-model-parallel-size", 2))
        self.assertEqual(codes, [1, 1, 1])
        self.assertIn("world size: expected a multiple of tensor x pipeline x context parallel size "
                      "2 x 1 x 1, found 3", err)

    def test_a_disk_full_on_one_rank_ends_all_and_leaves_the_last_checkpoint(self):
        for shape in ("--tensor-model-parallel-size 2", "--ckpt-format torch_dist",
                      "--async-save --tensor-model-parallel-size 2"):
            with self.subTest(shape=shape):
                save = self.folder / shape.replace(" ", "")
                processes = self.start(2, *shape.split(), "--train-iters", 1000000, "--save", save,
                                       "--save-interval", 1)
                # The first rank says so; the other one's files end after 4 KiB from then on.
                for line in processes[0].stdout:
                    if "successfully saved checkpoint" in line:
                        break
                resource.prlimit(processes[1].pid, resource.RLIMIT_FSIZE, (4096, 4096))
                codes, out, err = self.end(processes)
                self.assertEqual(codes, [1, 1], out + err)
                self.assertEqual(len(self.errors(err)), 1, err)
                self.assertRegex(self.errors(err)[0], "^rank 1: .*File too large")
                done = subprocess.run([VERIFY, "checkpoint", save], capture_output=True, text=True,
                                      timeout=TIMEOUT)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                last = int((save / "latest_checkpointed_iteration.txt").read_text())
                self.assertEqual(sorted(path.name for path in save.glob("iter_*"))[-1],
                                 f"iter_{last:07}")

    def test_ranks_end_when_one_is_killed(self):
        save = self.folder / "save"
        processes = self.start(2, "--train-iters", 1000000, "--save", save, "--save-interval", 1)
        for line in processes[1].stdout:
            if " iteration        3/" in line:
                break
        processes[1].kill()
        codes, out, err = self.end(processes)
        self.assertEqual(codes, [1, -9], out + err)
        self.assertEqual(len(self.errors(err)), 1, err)
        self.assertRegex(err, "error: rank 0: .* of the (world|data) group: ")
        done = subprocess.run([VERIFY, "checkpoint", save], capture_output=True, text=True,
                              timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    if not ORACLE.is_dir() or not importlib.util.find_spec("torch"):
        print(f"skipped: {ORACLE} or torch is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
