"""Near duplicates of many files, its four stages as tasks of Ray: the documents that stay are those of one call.

    python ray_near_duplicates.py FOLDER OUTPUT_FOLDER TASKS
"""

import subprocess
import sys

import ray


@ray.remote
def run_stage(output, stage, rank, count, flags=()):
    flags = [*flags, "--minhash-folder", f"{output}/stages", "--minhash-stage", stage, "--shard", f"{rank}/{count}"]
    if stage == "filter":
        flags += ["--output", f"{output}/{rank:05d}.jsonl"]
    subprocess.run([sys.executable, "-m", "libmeg", "clean_dataset", "--near-duplicates", *flags], check=True)


if __name__ == "__main__":
    folder, output, tasks = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for stage, count in (("signatures", tasks), ("buckets", min(tasks, 14)), ("clusters", 1), ("filter", tasks)):
        flags = ["--input", folder] if stage == "signatures" else []
        ray.get([run_stage.remote(output, stage, rank, count, flags) for rank in range(count)])
