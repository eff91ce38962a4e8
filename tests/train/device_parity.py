#!/usr/bin/env python3
"""Trains the same run on the CPU and on a device, and beside plain PyTorch: are the numbers the same?

device_parity.py PROGRAMS [--device cpu|cuda] [--peer peer_train.py] [--python PYTHON]

PROGRAMS is a folder with preprocess_data, pretrain_gpt and verify. From the embedded text of testdata/
20 steps of a small model; prints a table of the largest relative differences to the CPU's fp32 run, and
exits 1 where one is beyond its bound or a resumed run is not the straight one to the bit.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parents[2] / "testdata"
MODEL = ("--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
         "--max-position-embeddings 64").split()
BATCH = "--seq-length 64 --micro-batch-size 4 --global-batch-size 8 --train-iters 20".split()
RATES = "--lr 1e-3 --min-lr 1e-4 --weight-decay 0.1 --clip-grad 1.0".split()
DROPOUT = "--hidden-dropout 0.1 --attention-dropout 0.1".split()


class Parity:
    def __init__(self, arguments, folder):
        self.programs, self.folder = arguments.programs.resolve(), folder
        self.device, self.python, self.peer = arguments.device, arguments.python, arguments.peer
        self.failed = False
        words = ["--vocab-file", DATA / "tokenizer" / "vocab.json",
                 "--merge-file", DATA / "tokenizer" / "merges.txt"]
        self.tokens = DATA / "quickstart" / "english_text_document"  # made by gpu_check.sh --pack
        if not self.tokens.with_suffix(".idx").exists():
            self.tokens = folder / "english_text_document"
            self.program("preprocess_data", "--input", DATA / "quickstart" / "english.jsonl",
                         "--output-prefix", folder / "english", "--tokenizer-type", "GPT2BPETokenizer",
                         *words, "--append-eod")
        self.data = ["--data-path", self.tokens, *words, "--split", "100,0,0", "--eval-iters", 0,
                     "--data-cache-path", folder / "cache", "--log-interval", 1, "--seed", 7]

    def run(self, *command):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"error: {command[0]}: " + (done.stderr or done.stdout).strip()[-1500:])
        return done.stdout

    def program(self, name, *flags):
        return self.run(self.programs / name, *flags)

    def train(self, device, *flags, dropout=("--hidden-dropout", 0, "--attention-dropout", 0)):
        return self.program("pretrain_gpt", *MODEL, *BATCH, *RATES, "--lr-decay-style", "cosine",
                            *self.data, *dropout, "--device", device, *flags)

    def compare(self, name, found, expected, bounds):
        """Largest relative difference of losses and of gradient norms, each with its bound."""
        if len(found) != 20 or len(expected) != 20:
            sys.exit(f"error: {name}: expected 20 steps, found {len(found)} and {len(expected)}")
        worst = [max(abs(float(a[i]) - float(b[i])) / float(b[i]) for a, b in zip(found, expected))
                 for i in (0, 1)]
        good = all(difference <= bound for difference, bound in zip(worst, bounds))
        self.failed |= not good
        print(f"| {name} | {worst[0]:.1e} | {bounds[0]:.0e} | {worst[1]:.1e} | {bounds[1]:.0e} | "
              f"{'yes' if good else 'NO'} |", flush=True)

    def resume(self, *flags):
        """20 steps straight, and 10 and 10."""
        straight, parts = (self.folder / "-".join(["run", *flags, kind]) for kind in ("a", "b"))
        run = [self.device, "--deterministic-mode", *flags]
        self.train(*run, "--save", straight, dropout=DROPOUT)
        self.train(*run, "--save", parts, "--exit-interval", 10, dropout=DROPOUT)
        self.train(*run, "--save", parts, "--load", parts, dropout=DROPOUT)
        done = subprocess.run([self.programs / "verify", "diff", straight, parts], capture_output=True,
                              text=True)
        self.failed |= done.returncode != 0
        print(f"resumed run {' '.join(flags)}: "
              + ("equal to the bit" if done.returncode == 0 else "DIFFERS\n" + done.stdout[-1500:]), flush=True)

    def peer_steps(self, start):
        file = next(start.glob("iter_*/mp_rank_00/model_optim_rng.pt"))
        index = next((self.folder / "cache").glob("*-train-document_index.npy"))
        indices = [word for kind in ("document", "sample", "shuffle") for word in
                   (f"--{kind}-index", str(index).replace("document_index", f"{kind}_index"))]
        text = self.run(self.python, self.peer, "--checkpoint", file, "--tokens", self.tokens, *indices,
                        *BATCH, *RATES, "--device", self.device)
        return re.findall(r"lm_loss ([\d.]+) grad_norm ([\d.]+)", text)

    def check(self):
        start = self.folder / "start"
        self.train("cpu", "--save", start, "--exit-interval", 1)
        begin = ["--load", start, "--finetune"]

        def steps(device, *flags):
            text = self.train(device, *begin, *flags)
            return re.findall(r"lm loss: ([\d.E+-]+).*?grad norm: ([\d.]+)", text)

        cpu = steps("cpu")
        # Sums are taken in another order on a GPU, and Adam divides small gradients by themselves.
        near = (1e-5, 2e-3) if self.device == "cpu" else (1e-4, 2e-2)
        print("| run beside fp32 on the CPU | losses | bound | gradient norms | bound | within |\n"
              "|---|---:|---:|---:|---:|---|")
        self.compare(f"fp32, {self.device}", steps(self.device), cpu, near)
        self.compare(f"fp32, {self.device}, unfused attention",
                     steps(self.device, "--attention-backend", "unfused"), cpu, near)
        self.compare(f"fp32, {self.device}, full recomputation",
                     steps(self.device, "--recompute-granularity", "full", "--recompute-method",
                           "uniform"), cpu, near)
        self.compare(f"bf16, {self.device}", steps(self.device, "--bf16"), cpu, (5e-3, 5e-2))
        self.compare(f"fp16, {self.device}", steps(self.device, "--fp16", "--loss-scale", 1024), cpu,
                     (5e-3, 5e-2))
        if self.peer:
            self.compare(f"plain PyTorch, fp32, {self.device}", self.peer_steps(start), cpu, near)
        for flags in ((), ("--bf16",), ("--fp16",)):
            self.resume(*flags)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--peer", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable, help="has torch, for the peer")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parity = Parity(arguments, pathlib.Path(folder))
        parity.check()
    sys.exit(1 if parity.failed else 0)


if __name__ == "__main__":
    main()
