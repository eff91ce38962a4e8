"""Near duplicates of many files, its four stages as executors of datatrove: the documents that stay are those of one call.

    python datatrove_near_duplicates.py FOLDER OUTPUT_FOLDER TASKS
"""

import subprocess
import sys
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor  # or SlurmPipelineExecutor
from datatrove.pipeline.base import PipelineStep


class Stage(PipelineStep):
    name = "clean_dataset"

    def __init__(self, stage, output, flags=()):
        super().__init__()
        self.stage, self.output, self.flags = stage, Path(output), flags

    def run(self, data=None, rank=0, world_size=1):
        flags = ["--minhash-folder", self.output / "stages", "--minhash-stage", self.stage, "--shard", f"{rank}/{world_size}"]
        if self.stage == "filter":
            flags += ["--output", self.output / f"{rank:05d}.jsonl"]
        subprocess.run([sys.executable, "-m", "libmeg", "clean_dataset", "--near-duplicates", *flags, *self.flags], check=True)


if __name__ == "__main__":
    folder, output, tasks = sys.argv[1], sys.argv[2], int(sys.argv[3])
    before = None
    for stage, count in (("signatures", tasks), ("buckets", min(tasks, 14)), ("clusters", 1), ("filter", tasks)):
        pipeline = [Stage(stage, output, ["--input", folder] if stage == "signatures" else [])]
        before = LocalPipelineExecutor(pipeline, tasks=count, workers=2, logging_dir=f"{output}/logs/{stage}", depends=before)
    before.run()
