#!/usr/bin/env python3
"""Training a byte-level BPE tokenizer: train_tokenizer beside rustbpe and the trainer of tokenizers.

train_tokenizer_bench.py [--megabytes N] [--runs N] [--corpus KIND ...] [--vocab-size N ...] [--without-tokenizers]

Makes the corpora with make_corpus.py of the shared folder. Compares the merges with those of tokenizers, all of them, and
the tokens with those of rustbpe, which breaks ties by other ids; then times fresh processes interleaved. libmeg's seconds
are those of the whole process, from the JSON lines to the files; the peers' those of the training alone, texts in memory.
Given are the wall's seconds and the processor's, medians; the latter depend less on other work beside. Prints a Markdown
table.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = ["english", "code", "multilingual", "mix", "longtail"]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def parse_arguments():
    cache = Path(os.environ.get("MEG_DEPS") or Path.home() / ".cache" / "libmeg")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--corpus", nargs="+", choices=KINDS, default=["english", "multilingual"])
    parser.add_argument("--vocab-size", nargs="+", type=int, default=[32000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--without-tokenizers", action="store_true", help="compare and time rustbpe alone")
    parser.add_argument("--corpus-dir", type=Path, default=cache / "bench")
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("MEG_SHARED") or ROOT / ".." / "shared"))
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/train_tokenizer"))
    parser.add_argument("--peer", nargs=4, metavar=("NAME", "CORPUS", "SIZE", "OUTPUT"), help=argparse.SUPPRESS)
    return parser.parse_args()


def corpus(arguments, kind):
    path = arguments.corpus_dir / f"{kind}_{arguments.megabytes}mb.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(f"{path}.partial")
        subprocess.run([sys.executable, str(arguments.shared / "bench/make_corpus.py"), "--kind", kind, "--megabytes",
                        str(arguments.megabytes), "--output", str(partial)], check=True, stdout=sys.stderr)
        partial.rename(path)
    return path


def train_with_rustbpe(texts, size):
    import rustbpe
    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(iter(texts), size, pattern=GPT2)
    return [token.hex() for token, _ in tokenizer.get_mergeable_ranks()]


def train_with_tokenizers(texts, size):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return json.loads(tokenizer.to_str())["model"]["merges"]


PEERS = {"rustbpe": train_with_rustbpe, "tokenizers": train_with_tokenizers}


def run_peer(name, path, size, output):
    """In a process of its own: times the training alone and writes what it gave."""
    with open(path, encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    wall, processor = time.monotonic(), time.process_time()
    trained = PEERS[name](texts, int(size))
    seconds = time.monotonic() - wall, time.process_time() - processor
    Path(output).write_text(json.dumps({"seconds": seconds, "trained": trained}))


def time_peer(arguments, name, path, size, folder):
    output = folder / f"{name}.json"
    subprocess.run([sys.executable, __file__, "--peer", name, str(path), str(size), str(output)], check=True,
                   env=os.environ | {"RAYON_NUM_THREADS": str(arguments.workers)})
    made = json.loads(output.read_text())
    return made["seconds"], made["trained"]


def time_libmeg(arguments, path, size, folder):
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([arguments.program, "--input", str(path), "--vocab-size", str(size), "--output-dir", str(folder / "out"),
                    "--workers", str(arguments.workers)], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.monotonic() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (wall, processor), json.loads((folder / "out/tokenizer.json").read_text(encoding="utf-8"))["model"]


def byte_tokens(model):
    sys.path.insert(0, str(ROOT / "tests/tokenizer"))
    from compare_with_python import byte_characters
    bytes_of = {character: byte for byte, character in byte_characters().items()}
    return {bytes(map(bytes_of.get, token)).hex() for token in model["vocab"]}


def check_equal(name, model, trained):
    """The part of the tokens that both have; of tokenizers all merges must be equal."""
    if name == "rustbpe":
        return len(byte_tokens(model) & set(trained)) / len(trained)
    if model["merges"] != trained:
        sys.exit("the merges differ from those of tokenizers")
    return 1.0


def main():
    arguments = parse_arguments()
    if arguments.peer:
        return run_peer(*arguments.peer)
    peers = [name for name in PEERS if name == "rustbpe" or not arguments.without_tokenizers]
    print("| corpus | tokens | peer | equal tokens | libmeg s (processor) | peer s (processor) | ratio (processor) |")
    print("|---|---:|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in arguments.corpus:
            path = corpus(arguments, kind)
            for size in arguments.vocab_size:
                seconds = {name: [] for name in ["libmeg", *peers]}
                equal = {}
                for _ in range(arguments.runs):
                    ours, model = time_libmeg(arguments, path, size, folder)
                    seconds["libmeg"].append(ours)
                    for peer in peers:
                        theirs, trained = time_peer(arguments, peer, path, size, folder)
                        equal[peer] = check_equal(peer, model, trained)
                        seconds[peer].append(theirs)
                medians = {name: [statistics.median(column) for column in zip(*all_)] for name, all_ in seconds.items()}
                wall, processor = medians["libmeg"]
                for peer in peers:
                    peer_wall, peer_processor = medians[peer]
                    print(f"| {kind} | {size} | {peer} | {equal[peer]:.1%} | {wall:.2f} ({processor:.2f}) | "
                          f"{peer_wall:.2f} ({peer_processor:.2f}) | {peer_wall / wall:.1f} "
                          f"({peer_processor / processor:.1f}) |", flush=True)


if __name__ == "__main__":
    main()
