#!/usr/bin/env python3
"""pretrain_gpt started by each launcher as tutorials type it: the same losses, a clean end.

launchers_test.py PRETRAIN_GPT SHIM
"""

import importlib.util
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("MEG_SHARED", ROOT.parent / "shared"))
ORACLE = SHARED / "oracle" / "training"
PRETRAIN, SHIM = (os.path.abspath(path) for path in sys.argv[1:3])
RUN = ("--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 "
       "--max-position-embeddings 40 --make-vocab-size-divisible-by 74 --micro-batch-size 2 "
       "--global-batch-size 4 --lr 0.005 --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt "
       "--split 90,8,2 --train-iters 2 --eval-iters 0 --log-interval 1 --data-path data/tiny "
       "--attention-dropout 0 --hidden-dropout 0 --device cpu --distributed-backend nccl").split()
# Meet by number, because not every container knows the names localhost and its own.
MEETING = "--rdzv-backend c10d --rdzv-endpoint 127.0.0.1:0 --local-addr 127.0.0.1".split()
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *MEETING]
LAUNCH = [sys.executable, "-m", "torch.distributed.launch", "--nproc-per-node", "2", *MEETING]
# Kills rank 1 once there is a checkpoint, once; ranks that are restarted end after an iteration.
KILLS_ONCE = """
if [ "$TORCHELASTIC_RESTART_COUNT" != 0 ]; then exec "$@" --exit-interval 1; fi
if [ "$RANK" != 1 ]; then exec "$@"; fi
"$@" &
while [ ! -e "$SAVED/latest_checkpointed_iteration.txt" ]; do sleep 0.05; done
kill -9 $!
wait $!
"""
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
TIMEOUT = 300


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Launchers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.flags = [*RUN, "--data-cache-path", cls.folder]
        alone = cls.start(PRETRAIN)
        assert alone.returncode == 0, alone.stderr
        cls.expected = cls.losses(alone)
        assert len(cls.expected) == 2, alone.stdout

    @classmethod
    def start(cls, *command, **variables):
        return subprocess.run([*command, *cls.flags], cwd=ORACLE, capture_output=True, text=True,
                              timeout=TIMEOUT,
                              env={**os.environ, "OMP_NUM_THREADS": "1", **variables})

    @staticmethod
    def losses(done):
        return [float(loss) for loss in re.findall(r"iteration .* lm loss: ([\d.E+-]+)", done.stdout)]

    def check(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("using world size: 2, data-parallel size: 2"), 1)
        self.assertEqual(done.stderr.count("note: --distributed-backend nccl"), 1, done.stderr)
        found = self.losses(done)
        self.assertEqual(len(found), 2, done.stdout)
        self.assertAlmostEqual(found[0] / self.expected[0], 1, delta=2e-6)
        # What LibTorch warns of, such as groups that were left open.
        self.assertEqual(re.findall(r"^\[.*[WE]\d+ .*(?:c10d|ProcessGroup|TCPStore|socket).*$",
                                    done.stderr, re.M), [])

    def test_torchrun_starts_the_program(self):
        self.check(self.start(*TORCHRUN, "--no-python", PRETRAIN))

    def test_torchrun_starts_the_script(self):
        self.check(self.start(*TORCHRUN, SHIM))

    def test_torch_distributed_launch_says_the_rank_by_a_flag(self):
        self.check(self.start(*LAUNCH, SHIM))

    def test_torch_distributed_launch_says_the_rank_by_a_variable(self):
        self.check(self.start(*LAUNCH, "--use-env", SHIM))

    def test_torchrun_starts_a_failed_run_anew_from_its_last_checkpoint(self):
        saved = os.path.join(self.folder, "saved")
        command = [*TORCHRUN, "--max-restarts", "1", "--no-python", "sh", "-c", KILLS_ONCE, "sh",
                   PRETRAIN, "--save", saved, "--load", saved, "--save-interval", "1"]
        flags = [*self.flags, "--train-iters", "100000"]
        done = subprocess.run([*command, *flags], cwd=ORACLE, capture_output=True, text=True,
                              timeout=TIMEOUT,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "SAVED": saved})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"successfully loaded checkpoint .* at iteration [1-9]")
        self.assertEqual(len(re.findall("^error: ", done.stderr, re.M)), 1, done.stderr)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is missing")
    def test_mpirun_starts_the_program(self):
        """Rank 0 hosts the store: on a port that was free, and may be taken meanwhile."""
        for _ in range(5):
            done = self.start(*MPIRUN, PRETRAIN, MASTER_PORT=str(free_port()))
            if "EADDRINUSE" not in done.stderr:
                break
        self.check(done)


if __name__ == "__main__":
    if not ORACLE.is_dir() or not importlib.util.find_spec("torch"):
        print(f"skipped: {ORACLE} or torch is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
