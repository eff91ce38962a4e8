#!/usr/bin/env python3
"""Forward and backward passes of a mixture of experts as Mixtral's beside megatron-core's, on the CPU in fp32.

moe_model_bench.py PROGRAM [--shape LAYERS HIDDEN HEADS VOCAB SEQ BATCH] [--experts N TOPK FFN] [--steps N]
    [--threads T] [--rounds R]

Runs PROGRAM (gpt_model_bench) and megatron-core's GPTModel (local layers, SequentialMLP, nothing compiled) in turn, each
in a fresh process, and prints the best step of each in seconds and in CPU seconds.
"""
import argparse
import os
import subprocess
import sys
import time


def core_steps(shape, experts, steps, threads):
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))
    import torch

    from megatron_core import models as core
    core.start_without_gpu()
    torch.set_num_threads(threads)
    layers, hidden, heads, vocab, seq, batch = shape
    count, topk, ffn = experts
    model = core.make_model(argparse.Namespace(
        num_layers=layers, hidden_size=hidden, num_attention_heads=heads, kv_channels=hidden // heads,
        ffn_hidden_size=ffn, moe_ffn_hidden_size=ffn, num_experts=count, moe_router_topk=topk,
        moe_router_load_balancing_type="aux_loss", moe_aux_loss_coeff=0.01, padded_vocab_size=vocab,
        max_position_embeddings=seq, position_embedding_type="rope", normalization="RMSNorm", swiglu=True,
        add_bias_linear=False, untie_embeddings_and_output_weights=True, tensor_model_parallel_size=1,
        pipeline_model_parallel_size=1))
    tokens = torch.randint(vocab, (batch, seq))
    positions = torch.arange(seq).expand_as(tokens)
    wall, processor = [], []
    for _ in range(steps):
        start, processor_start = time.perf_counter(), time.process_time()
        model(tokens, positions, None, labels=tokens).mean().backward()
        for parameter in model.parameters():
            parameter.grad = None
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - processor_start)
    print(min(wall), min(processor))


def run(command):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return [float(word) for word in done.stdout.split()[-2:]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--shape", type=int, nargs=6, default=[4, 256, 8, 8192, 256, 2])
    parser.add_argument("--experts", type=int, nargs=3, default=[8, 2, 512])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only-core", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only_core:
        return core_steps(arguments.shape, arguments.experts, arguments.steps, arguments.threads)
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        numbers = [*arguments.shape, arguments.steps, arguments.threads, *arguments.experts]
        ours.append(run([arguments.program, *map(str, numbers)]))
        theirs.append(run([sys.executable, *sys.argv, "--only-core"]))
    for i, name in enumerate(["seconds", "CPU seconds"]):
        a, b = min(x[i] for x in ours), min(x[i] for x in theirs)
        print(f"{name}: libmeg {a:.4f}, megatron-core {b:.4f}, {b / a:.2f} times as fast")


if __name__ == "__main__":
    main()
