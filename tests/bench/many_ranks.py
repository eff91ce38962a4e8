#!/usr/bin/env python3
"""Many ranks of a tiny model on this machine: how long they take to start, to train three steps and to
end, and the memory of each.

many_ranks.py PRETRAIN_GPT [TENSOR PIPELINE DATA]
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from torch.distributed import TCPStore

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORACLE = pathlib.Path(os.environ.get("MEG_SHARED", ROOT.parent / "shared")) / "oracle" / "training"
PRETRAIN = os.path.abspath(sys.argv[1])
TENSOR, PIPELINE, DATA = map(int, sys.argv[2:5]) if len(sys.argv) > 2 else (4, 4, 4)
RANKS = TENSOR * PIPELINE * DATA


def start(rank, folder, port):
    command = [PRETRAIN, *("--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 "
                           "--max-position-embeddings 32 --make-vocab-size-divisible-by 74 "
                           f"--micro-batch-size 1 --global-batch-size {4 * DATA} --lr 0.005 "
                           "--vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt --split 90,8,2 "
                           "--eval-iters 0 --log-interval 1 --train-iters 3 --data-path data/tiny "
                           f"--tensor-model-parallel-size {TENSOR} "
                           f"--pipeline-model-parallel-size {PIPELINE} "
                           f"--device cpu --data-cache-path {folder}").split()]
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank),
                   "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True",
                   "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, cwd=ORACLE, text=True,
                            stdout=subprocess.PIPE if rank in (0, RANKS - 1) else subprocess.DEVNULL)


def main():
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        processes = [start(rank, folder, store.port) for rank in range(RANKS)]

        def seconds_until(process, text):
            for line in process.stdout:
                if text in line:
                    return time.monotonic() - begin
            return float("nan")

        started = seconds_until(processes[0], "training ...")
        steps = [seconds_until(processes[-1], f" iteration        {i}/") for i in (1, 2, 3)]
        peaks = []
        for process in processes:
            if process.stdout is not None:
                process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            peaks.append(usage.ru_maxrss / 1024)
        codes = {process.returncode for process in processes}
        print(f"{RANKS} ranks (TP{TENSOR} PP{PIPELINE} DP{DATA}): exit codes {codes}, start-up "
              f"{started:.1f} s, steps at {', '.join(f'{step:.1f}' for step in steps)} s, all gone at "
              f"{time.monotonic() - begin:.1f} s; peak resident memory of a rank "
              f"{statistics.median(peaks):.0f} MiB (at most {max(peaks):.0f}), libraries counted in each")


if __name__ == "__main__":
    main()
