"""What the tests of checkpoints share: the oracle's checkpoints, and running programs."""
import os
import subprocess
import unittest

from reference import files as reference_files
from reference import reshape as reference

SHARED = os.environ.get("MEG_SHARED") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "../../../../shared")
ORACLE = os.path.join(SHARED, "oracle/checkpoints")
needs_oracle = unittest.skipUnless(os.path.isdir(ORACLE), "no shared folder")  # of a class of tests
TRUE_VOCAB_SIZE = 290
# Asked for where a checkpoint has no args.
SHAPE_FLAGS = ["--num-layers", "4", "--hidden-size", "32", "--num-attention-heads", "4",
               "--max-position-embeddings", "64"]
HEADS = 4


def rank_folders(case):
    """mp_rank folders of a case's iteration; nothing for other formats."""
    tracker = os.path.join(ORACLE, case, "latest_checkpointed_iteration.txt")
    if not os.path.exists(tracker):
        return []
    folder = reference_files.iteration_folder(os.path.join(ORACLE, case))
    return sorted(name for name in os.listdir(folder) if name.startswith("mp_rank"))


def cases():
    """All cases in mp_rank folders, without experts."""
    return sorted(case for case in os.listdir(ORACLE) if rank_folders(case) and "moe" not in case)


def path(case):
    return os.path.join(ORACLE, case)


def merge(case):
    return reference.merge(path(case), heads=HEADS)


def shape_flags(case):
    return SHAPE_FLAGS if case.startswith("old_flat") else []


def run(program, *flags, **options):
    return subprocess.run([program, *flags], capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL, **options)


def reshape(program, load, save, tp, pp, *flags):
    """The finished process of checkpoint_util."""
    return run(program, "--model-type", "GPT", "--load-dir", load, "--save-dir", save,
               "--target-tensor-parallel-size", str(tp),
               "--target-pipeline-parallel-size", str(pp), *flags)
