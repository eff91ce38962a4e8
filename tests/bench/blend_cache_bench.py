#!/usr/bin/env python3
"""Index caches of a blend of many small datasets: prepare_cache beside megatron-core, in one run.

blend_cache_bench.py [--runs N] [--datasets N] [--threads N] [--build DIR] [--folder DIR]

The two sides take turns, each in a new cache folder, and their files are compared byte for byte. The
folders are removed at the end only: ext4 is slow to make files for a minute after it has removed
some. prepare_cache is timed as a whole process, whose files are on the
device when it ends; the peer from the builder's call on, without its imports, and nobody flushes.
Prints a Markdown table of medians. The interpreter must have megatron-core.
"""
import argparse
import filecmp
import importlib.metadata
import os
import random
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SEED, LENGTH, VOCAB_SIZE, SEQUENCES = 1234, 64, 1000, 60


def parse_arguments():
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--datasets", type=int, default=1200)
    parser.add_argument("--threads", type=int, default=1, help="--num-dataset-builder-threads of both")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--folder", default=os.path.join(cache, "bench"))
    parser.add_argument("--peer", metavar="CACHE", help=argparse.SUPPRESS)
    return parser.parse_args()


def write_dataset(prefix, chooser):
    """MMIDIDX of uint16, one sequence a document."""
    lengths = [chooser.randrange(20, 200) for _ in range(SEQUENCES)]
    pointers = [2 * sum(lengths[:i]) for i in range(SEQUENCES)]
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, SEQUENCES, SEQUENCES + 1))
        file.write(struct.pack(f"<{SEQUENCES}i{SEQUENCES}q{SEQUENCES + 1}q", *lengths, *pointers,
                               *range(SEQUENCES + 1)))
    with open(prefix + ".bin", "wb") as file:
        file.write(bytes(2 * sum(lengths)))


def prefixes(arguments):
    return [f"set{i}" for i in range(arguments.datasets)]


def samples_of(arguments):
    """Fewer than all datasets have in an epoch."""
    return arguments.datasets * SEQUENCES


def build_with_peer(arguments):
    """In the folder of the data; prints wall-clock and CPU seconds."""
    import logging
    import warnings
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    import torch
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.tokenizers import MegatronTokenizer
    torch.distributed.init_process_group("gloo", init_method=f"file://{os.getcwd()}/store", rank=0,
                                         world_size=1)
    config = GPTDatasetConfig(
        random_seed=SEED, sequence_length=LENGTH, blend=(prefixes(arguments), [1.0] * arguments.datasets),
        split="1,0,0", path_to_cache=arguments.peer, create_attention_mask=False, reset_position_ids=False,
        reset_attention_mask=False, eod_mask_loss=False, num_dataset_builder_threads=arguments.threads,
        tokenizer=MegatronTokenizer.from_pretrained(metadata_path={"library": "null"},
                                                    vocab_size=VOCAB_SIZE))
    clock, processor = time.perf_counter(), time.process_time()
    BlendedMegatronDatasetBuilder(GPTDataset, [samples_of(arguments), 0, 0], lambda: True, config).build()
    print(time.perf_counter() - clock, time.process_time() - processor)
    torch.distributed.destroy_process_group()


def peer_seconds(arguments, folder, cache):
    command = [sys.executable, os.path.abspath(__file__), "--peer", cache, "--datasets",
               str(arguments.datasets), "--threads", str(arguments.threads)]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return tuple(map(float, done.stdout.split()[-2:]))


def our_seconds(arguments, folder, cache):
    version = "core_v" + importlib.metadata.version("megatron-core")
    blend = [word for prefix in prefixes(arguments) for word in ("1.0", prefix)]
    command = [os.path.join(arguments.build, "bin", "prepare_cache"), "--data-path", *blend, "--split",
               "1,0,0", "--samples", f"{samples_of(arguments)},0,0", "--seq-length", str(LENGTH),
               "--seed", str(SEED), "--data-cache-path", cache, "--tokenizer-type", "NullTokenizer",
               "--vocab-size", str(VOCAB_SIZE), "--num-dataset-builder-threads",
               str(arguments.threads), "--megatron-version", version]
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - clock, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compare(ours, peer):
    """Number of the files that both sides wrote; libmeg's own are left out."""
    names = sorted(os.listdir(peer))
    if names != sorted(name for name in os.listdir(ours) if not name.endswith("-libmeg.json")):
        sys.exit("error: the two sides wrote files of different names")
    _, different, _ = filecmp.cmpfiles(ours, peer, names, shallow=False)
    if different:
        sys.exit(f"error: {len(different)} files differ: {different[0]} ...")
    return len(names)


def run(arguments, folder):
    chooser = random.Random(5)
    for prefix in prefixes(arguments):
        write_dataset(os.path.join(folder, prefix), chooser)
    sides = {"ours": (our_seconds, []), "peer": (peer_seconds, [])}
    for number in range(arguments.runs):
        for name, (seconds, measured) in sides.items():
            os.sync()
            measured.append(seconds(arguments, folder, f"{name}{number}"))
            print(f"{name}: {measured[-1][0]:.1f} s, {measured[-1][1]:.1f} s of processors",
                  file=sys.stderr, flush=True)
        files = compare(os.path.join(folder, f"ours{number}"), os.path.join(folder, f"peer{number}"))
    (ours, ours_cpu), (peer, peer_cpu) = ([statistics.median(column) for column in zip(*measured)]
                                          for _, measured in sides.values())
    print("| datasets | files | threads | s | peer s | ratio | processor s | peer's | ratio |\n" +
          "|---:" * 9 + "|")
    print(f"| {arguments.datasets} | {files} | {arguments.threads} | {ours:.1f} | {peer:.1f} | "
          f"{peer / ours:.1f}x | {ours_cpu:.1f} | {peer_cpu:.1f} | {peer_cpu / ours_cpu:.1f}x |")


def main():
    arguments = parse_arguments()
    if arguments.peer:
        return build_with_peer(arguments)
    os.makedirs(arguments.folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.folder) as folder:
        run(arguments, folder)


if __name__ == "__main__":
    main()
