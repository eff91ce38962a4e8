#!/usr/bin/env python3
"""preprocess_data --shard auto under torchrun and mpirun: merged, the shards are what one process writes."""
import os
import shutil
import subprocess
import sys

import preprocess_case
from preprocess_case import PreprocessData, lines_of


class Launchers(PreprocessData):
    def assert_shards(self, *launcher):
        for name in ("a", "b"):
            self.write(name, lines_of([f"{name} {i} " + "x" * (i % 70) for i in range(400)]))
        inputs = ("--input", self.path("a"), self.path("b"), "--append-eod")
        self.assert_done(self.run_program(*inputs, prefix=self.path("expected")))
        os.mkdir(self.path("shards"))
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI", "SLURM", "PMI", "PMIX")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(names)}
        command = self.command(*inputs, "--shard", "auto", "--workers", "1", prefix=self.path("shards", "s"))
        done = subprocess.run([*launcher, *command], capture_output=True, text=True, timeout=600, env=environment,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        merge = os.path.join(os.path.dirname(preprocess_case.PROGRAM), "merge_datasets")
        subprocess.run([merge, "--input", self.path("shards"), "--output-prefix", self.path("out_text_document")],
                       check=True, capture_output=True)
        self.assertEqual(len(self.files("shards/*.bin")), 4)
        self.assertEqual(self.output(), self.output("expected"))

    def test_torchrun(self):
        torchrun = os.path.join(os.path.dirname(sys.executable), "torchrun")
        if not os.path.isfile(torchrun):
            self.skipTest("no torchrun beside this Python")
        self.assert_shards(torchrun, "--no-python", "--standalone", "--nproc-per-node", "4")

    def test_mpirun(self):
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            self.skipTest("no mpirun")
        self.assert_shards(mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "4")


if __name__ == "__main__":
    preprocess_case.main()
