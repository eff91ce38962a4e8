#!/usr/bin/env python3
"""What a training step must move and compute on one GPU, part by part: a Markdown table.

roofline.py [--hidden-size N] ...   (the shape of GPT 345M unless told otherwise)

Bytes count each array once where a kernel reads or writes it; what stays in registers and shared
memory is not counted. A part takes the longer of its bytes over the memory's bandwidth and its
operations over the share of the processor's rate that such kernels reach: matrix products never
reach the peak, attention with heads of 64 even less of it.
"""
import argparse

BF16, FP32 = 2, 4


def parts(a):
    """name, operations, bytes, kernel launches of each part of a step of one micro-batch, and the
    share of the peak that it reaches."""
    tokens = a.micro_batch_size * a.seq_length
    h, f, v, layers = a.hidden_size, a.ffn_hidden_size, a.padded_vocab_size, a.num_layers
    row = tokens * h * BF16  # one [tokens, hidden] array
    wide = tokens * f * BF16

    def product(m, n, k, extra=0):
        return 2 * m * n * k, (m * k + n * k + m * n) * BF16 + extra

    def three(n, k, extra=0):
        """A linear layer forward, its input's gradient, its weight's."""
        found = [product(tokens, n, k, extra), product(tokens, k, n), product(n, k, tokens)]
        return sum(p[0] for p in found), sum(p[1] for p in found)

    def layer(operations_bytes, launches):
        return operations_bytes[0] * layers, operations_bytes[1] * layers, launches * layers

    attention = 2 * tokens * a.seq_length * h  # causal: half of both products
    parameters = (12 * h * h + 13 * h) * layers + (v + a.seq_length) * h + 2 * h
    products = a.gemm_efficiency
    mlp = [three(f, h, extra=wide), three(h, f, extra=wide)]  # what GELU was taken of, kept
    return [
        ("qkv, projection", *layer(tuple(map(sum, zip(three(3 * h, h), three(h, h)))), 6), products),
        ("fc1 + GELU, fc2", *layer(tuple(map(sum, zip(*mlp))), 6), products),
        ("attention, forward and backward", *layer((3.5 * attention, (4 + 8) * row), 4),
         a.attention_efficiency),
        ("gradients of q, k, v into one array", *layer((0, 6 * row), 1), 1),
        ("dropout, residual, norms: forward", *layer((0, 2 * 4 * row), 2), 1),
        ("dropout, residual, norms: backward", *layer((0, 2 * 5 * row), 4), 1),
        ("output layer", *three(v, h), 3, products),
        ("cross entropy, forward and backward", 0, 2 * tokens * v * BF16, 1, 1),
        ("embedding, forward and backward", 0, 10 * row + v * h * BF16, 9, 1),
        ("statistics of the gradients", 0, parameters * BF16, 2, 1),
        ("Adam", 0, parameters * (BF16 + 6 * FP32 + BF16), 1, 1),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag, value in (("num-layers", 24), ("hidden-size", 1024), ("ffn-hidden-size", 4096),
                        ("seq-length", 1024), ("micro-batch-size", 16), ("padded-vocab-size", 50304)):
        parser.add_argument("--" + flag, type=int, default=value)
    parser.add_argument("--tflops", type=float, default=989, help="dense bf16, of an H200")
    parser.add_argument("--terabytes", type=float, default=4.8, help="a second, of an H200")
    parser.add_argument("--gemm-efficiency", type=float, default=0.7)
    parser.add_argument("--attention-efficiency", type=float, default=0.45)
    args = parser.parse_args()
    print("| part | TFLOP | GB | launches | implied ms | measured ms |\n|---|---:|---:|---:|---:|---:|")
    total = [0, 0, 0, 0]
    for name, operations, size, launches, efficiency in parts(args):
        computing = operations / (args.tflops * 1e12 * efficiency)
        time = 1e3 * max(computing, size / (args.terabytes * 1e12))
        numbers = [operations / 1e12, size / 1e9, launches, time]
        total = [a + b for a, b in zip(total, numbers)]
        print("| {} | {:.2f} | {:.2f} | {} | {:.1f} | |".format(name, *numbers))
    print("| **a step** | {:.1f} | {:.1f} | {} | {:.1f} | |".format(*total))
    tokens = args.micro_batch_size * args.seq_length
    model = 3 * tokens * (24 * args.hidden_size ** 2 * args.num_layers
                          + 4 * args.seq_length * args.hidden_size * args.num_layers
                          + 2 * args.hidden_size * args.padded_vocab_size)
    seconds = total[3] / 1e3
    print(f"\nThat is {tokens / seconds:,.0f} tokens/s, MFU {model / seconds / (args.tflops * 1e12):.0%}")


if __name__ == "__main__":
    main()
