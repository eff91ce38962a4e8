"""Ranks of one run as processes of a test, which meet in the test's own store as in torchrun's."""

import concurrent.futures
import os
import subprocess

TIMEOUT = 300


class RankProcesses:
    """Made by a test case, which ends those that still run."""

    store = None
    runs = 0

    def __init__(self, case):
        self.case = case
        if RankProcesses.store is None:
            from torch.distributed import TCPStore
            RankProcesses.store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def start(self, ranks, command, of_rank=None, folders=None, **options):
        """of_rank: further arguments of some. folders: where some run."""
        RankProcesses.runs += 1
        processes = []
        for rank in range(ranks):
            environment = {
                **os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(self.store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
                "TORCHELASTIC_RESTART_COUNT": str(self.runs), "OMP_NUM_THREADS": "1"}
            process = subprocess.Popen(
                [*map(str, command), *map(str, (of_rank or {}).get(rank, []))], env=environment,
                **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options,
                   **({"cwd": folders[rank]} if rank in (folders or {}) else {})})
            self.case.addCleanup(process.kill)
            processes.append(process)
        return processes

    @staticmethod
    def end(processes):
        """Exit codes, and what each wrote: [(out, err)]."""
        # All at once: a rank whose pipe is full would stop, and the ones that wait for it with it.
        with concurrent.futures.ThreadPoolExecutor(len(processes)) as readers:
            written = list(readers.map(lambda process: process.communicate(timeout=TIMEOUT), processes))
        return [process.returncode for process in processes], written
