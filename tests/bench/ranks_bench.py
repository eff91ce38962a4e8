#!/usr/bin/env python3
"""Steps of two ranks on the CPU beside PyTorch's own parallelism: same model, weights, samples and threads.

ranks_bench.py PRETRAIN_GPT --peers FOLDER [--shape LAYERS HIDDEN HEADS VOCAB SEQ] [--micro-batch-size B]
    [--micro-batches M] [--iterations N] [--rounds R] [--threads T] [--only CASE ...]

FOLDER holds peer_train.py, which reads the checkpoint that all begin with, and the samples. Data parallel
beside DistributedDataParallel, the distributed optimizer beside ZeroRedundancyOptimizer, tensor parallel
beside torch.distributed.tensor.parallel: Gloo, fp32, AdamW, gradients clipped, no dropout. Contestants run
in turn. Prints tokens a second, medians over the last half of the steps and then of the rounds, and the
median of the rounds' ratios. Exits 1 where losses or gradient norms differ from those of one rank.
"""

import argparse
import contextlib
import importlib.util
import os
import pathlib
import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

RANKS = 2
TOLERANCE = 1e-4
MEGABYTES_25 = 25 * 2**20 // 4  # elements: DistributedDataParallel's buckets
CASES = {  # what it is beside, libmeg's flags, the peer's name
    "DP 2": ("DistributedDataParallel", [], "ddp"),
    "DP 2, overlapped": ("DistributedDataParallel",
                         ["--overlap-grad-reduce", "--ddp-bucket-size", MEGABYTES_25], "ddp"),
    "distributed optimizer": ("ZeroRedundancyOptimizer", ["--use-distributed-optimizer"], "zero"),
    "distributed optimizer, overlapped": (
        "ZeroRedundancyOptimizer",
        ["--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather", "--ddp-bucket-size",
         MEGABYTES_25], "zero"),
    "distributed optimizer, gathers wait": (
        "ZeroRedundancyOptimizer",
        ["--use-distributed-optimizer", "--overlap-grad-reduce", "--ddp-bucket-size", MEGABYTES_25], "zero"),
    "TP 2": ("tensor.parallel", ["--tensor-model-parallel-size", 2], "tp")}


def write_dataset(prefix, a):
    """Random tokens in documents of a few hundred, as an .idx and .bin pair."""
    layers, hidden, heads, vocab, seq = a.shape
    draw = random.Random(1234)
    lengths = [draw.randrange(100, 900) for _ in range(200)]
    pointers = [2 * sum(lengths[:i]) for i in range(len(lengths))]
    pathlib.Path(f"{prefix}.bin").write_bytes(
        b"".join(struct.pack(f"<{n}H", *draw.choices(range(vocab - 1), k=n)) for n in lengths))
    n = len(lengths)
    pathlib.Path(f"{prefix}.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, n, n + 1) + struct.pack(f"<{n}i", *lengths) +
        struct.pack(f"<{n}q", *pointers) + struct.pack(f"<{n + 1}q", *range(n + 1)))


def environment(a, rank, ranks, port):
    return {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": str(a.threads)}


def launch(a, ranks, command):
    """What the last rank wrote."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, env=environment(a, rank, ranks, port)) for rank in range(ranks)]
    written = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit("error: " + "\n".join(written))
    return written[-1]


def ours(a, ranks, flags):
    layers, hidden, heads, vocab, seq = a.shape
    return launch(a, ranks, [
        a.program, "--num-layers", layers, "--hidden-size", hidden, "--num-attention-heads", heads,
        "--seq-length", seq, "--max-position-embeddings", seq, "--tokenizer-type", "NullTokenizer",
        "--vocab-size", vocab - 1, "--make-vocab-size-divisible-by", 1, "--padded-vocab-size", vocab,
        "--untie-embeddings-and-output-weights", "--data-path", a.folder / "data", "--split", "1,0,0",
        "--data-cache-path", a.folder / "cache", "--micro-batch-size", a.micro_batch_size,
        "--global-batch-size", a.global_batch, "--train-iters", a.iterations, "--lr", "1e-4",
        "--lr-decay-style", "constant", "--weight-decay", 0.01, "--adam-beta2", 0.999, "--eval-iters", 0,
        "--log-interval", 1, "--hidden-dropout", 0, "--attention-dropout", 0, "--device", "cpu", *flags])


def steps_of(a, text, milliseconds):
    """[(loss, gradient norm)] and tokens a second; the first half of the steps warms up."""
    found = [tuple(map(float, step)) for step in re.findall(milliseconds, text)]
    if len(found) != a.iterations:
        sys.exit(f"error: expected {a.iterations} steps, found\n{text}")
    time_of_step = statistics.median(step[0] for step in found[len(found) // 2:])
    return [step[1:] for step in found], 1000 * a.global_batch * a.shape[4] / time_of_step


def our_steps(a, ranks, flags):
    text = ours(a, ranks, ["--load", a.folder / "start", "--finetune", *flags])
    return steps_of(a, text, r"per iteration \(ms\): ([\d.]+) .*?lm loss: ([\d.E+-]+) .*?grad norm: ([\d.]+)")


def peer_steps(a, name):
    text = launch(a, RANKS, [a.python, __file__, *a.words, "--peer", name, "--folder", a.folder])
    return steps_of(a, text, r"step ([\d.]+) ms, loss ([\d.]+), gradient norm ([\d.]+)")


def check(a, name, steps, expected):
    for i, (found, wanted) in enumerate(zip(steps, expected, strict=True)):
        # The norm is printed with three digits after the point.
        if abs(found[0] - wanted[0]) > TOLERANCE * wanted[0] or abs(found[1] - wanted[1]) > 2e-3:
            sys.exit(f"error: {name}: step {i + 1}: expected loss and gradient norm {wanted}, found {found}")


def peer_model(a, module):
    import torch
    from torch import nn
    from torch.nn import functional

    layers, hidden, heads, vocab, seq = a.shape

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.fc1, self.fc2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            b, s, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(b, s, -1, 3, hidden // heads).permute(3, 0, 2, 1, 4)
            attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(attended.transpose(1, 2).reshape(b, s, -1))
            return x + self.fc2(functional.gelu(self.fc1(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.norm, self.output = nn.LayerNorm(hidden), nn.Linear(hidden, vocab, bias=False)

        def forward(self, tokens):
            x = self.words(tokens) + self.positions.weight
            for layer in self.layers:
                x = layer(x)
            return self.output(self.norm(x))

    torch.manual_seed(0)
    model, start = Gpt(), module.load(next((a.folder / "start").glob("iter_*")) / "mp_rank_00/model_optim_rng.pt")
    names = {"words.": "embedding.word_embeddings.", "positions.": "embedding.position_embeddings.",
             "layers.": "decoder.layers.", "norm1.": "input_layernorm.", "norm2.": "pre_mlp_layernorm.",
             "qkv.": "self_attention.linear_qkv.", "proj.": "self_attention.linear_proj.", "fc1.": "mlp.linear_fc1.",
             "fc2.": "mlp.linear_fc2.", "output.": "output_layer."}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(start.w("decoder.final_layernorm." + name[5:] if name.startswith("norm.") else
                                    re.sub(r"(?<![\w.])\w+\.|(?<=\d\.)\w+\.", lambda m: names[m[0]], name)))
    return model


def tensor_parallel(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, loss_parallel,
                                                   parallelize_module)
    mesh = init_device_mesh("cpu", (RANKS,))
    plan = {"words": RowwiseParallel(input_layouts=Replicate()),
            "output": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
    for i in range(len(model.layers)):
        plan |= {f"layers.{i}.qkv": ColwiseParallel(), f"layers.{i}.proj": RowwiseParallel(),
                 f"layers.{i}.fc1": ColwiseParallel(), f"layers.{i}.fc2": RowwiseParallel()}
    return parallelize_module(model, mesh, plan), loss_parallel


def clip(parameters, most):
    """torch.nn.utils.clip_grad_norm_, also where some parameters are parts of tensors."""
    import torch
    from torch import distributed

    whole, parts = torch.zeros(()), torch.zeros(())
    local = []
    for gradient in (parameter.grad for parameter in parameters):
        has_parts = hasattr(gradient, "to_local")
        local.append(gradient.to_local() if has_parts else gradient)
        is_part = has_parts and gradient.placements[0].is_shard()
        (parts if is_part else whole).add_(local[-1].square().sum())
    if any(hasattr(parameter.grad, "to_local") for parameter in parameters):
        distributed.all_reduce(parts)
    norm = (whole + parts).sqrt()
    torch._foreach_mul_(local, (most / (norm + 1e-6)).clamp(max=1.0))
    return norm.item()


def run_peer(a):
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(a.threads)
    distributed.init_process_group("gloo")
    spec = importlib.util.spec_from_file_location("peer_train", a.peers / "peer_train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model, around_loss, copies = peer_model(a, module), contextlib.nullcontext, RANKS
    if a.peer == "tp":
        (model, around_loss), copies = tensor_parallel(model), 1
    else:
        model = DistributedDataParallel(model)
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.01},
              {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0}]
    options = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8}
    if a.peer == "zero":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        optimizer = ZeroRedundancyOptimizer(groups[0]["params"], torch.optim.AdamW, weight_decay=0.01, **options)
        optimizer.add_param_group(groups[1])
    else:
        optimizer = torch.optim.AdamW(groups, **options)
    indices = [next((a.folder / "cache").glob(f"*-train-{kind}_index.npy"))
               for kind in ("document", "sample", "shuffle")]
    data = module.Samples(str(a.folder / "data"), a.shape[4], indices)
    b, copy = a.micro_batch_size, distributed.get_rank() if copies > 1 else 0
    micro_batches = a.global_batch // (b * copies)
    for step in range(a.iterations):
        begin = time.perf_counter()
        total = torch.zeros(())
        for m in range(micro_batches):
            first = step * a.global_batch + (m * copies + copy) * b
            tokens = torch.stack([torch.from_numpy(data[first + i]) for i in range(b)])
            sends = copies == 1 or m + 1 == micro_batches
            with contextlib.nullcontext() if sends else model.no_sync(), around_loss():
                logits = model(tokens[:, :-1])
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
                (loss / micro_batches).backward()
            loss = loss.full_tensor() if hasattr(loss, "full_tensor") else loss
            total += loss.detach() / (micro_batches * copies)
        if copies > 1:
            distributed.all_reduce(total)
        norm = clip(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=a.peer == "tp")
        milliseconds = 1000 * (time.perf_counter() - begin)
        print(f"step {milliseconds:.3f} ms, loss {total.item():.8f}, gradient norm {norm:.6f}", flush=True)
    distributed.barrier()
    # PyTorch's clean end now and then meets a thread of its own that still runs, and aborts.
    os._exit(0)


def measure(a):
    write_dataset(a.folder / "data", a)
    found = {}
    ours(a, 1, ["--save", a.folder / "start", "--exit-interval", 1, "--no-save-optim"])
    expected, _ = our_steps(a, 1, [])
    for _ in range(a.rounds):
        for case in a.only or CASES:
            _, flags, peer = CASES[case]
            rates = []
            for name, run in (("libmeg", lambda: our_steps(a, RANKS, flags)), (peer, lambda: peer_steps(a, peer))):
                steps, rate = run()
                check(a, f"{case}: {name}", steps, expected)
                rates.append(rate)
            print(f"{case}: {rates[0]:.0f} and {rates[1]:.0f} tokens/s", file=sys.stderr, flush=True)
            found.setdefault(case, []).append(rates)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--peers", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="has torch")
    parser.add_argument("--shape", type=int, nargs=5, default=[4, 256, 4, 8192, 256])
    parser.add_argument("--micro-batch-size", type=int, default=2)
    parser.add_argument("--micro-batches", type=int, default=2, help="of two ranks together, of TP's one each")
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--only", nargs="+", choices=CASES)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    a = parser.parse_args()
    a.words, a.global_batch = sys.argv[1:], a.micro_batch_size * a.micro_batches
    if a.peer:
        return run_peer(a)
    with tempfile.TemporaryDirectory() as folder:
        a.folder = pathlib.Path(folder)
        found = measure(a)
    print("| | beside | libmeg, tokens/s | peer, tokens/s | libmeg is |\n|---|---|---:|---:|---:|")
    for case, rounds in found.items():
        our, their = (statistics.median(rates[i] for rates in rounds) for i in (0, 1))
        ratio = statistics.median(rates[0] / rates[1] for rates in rounds)
        print(f"| {case} | {CASES[case][0]} | {our:.0f} | {their:.0f} | {ratio:.2f}x |")


if __name__ == "__main__":
    main()
