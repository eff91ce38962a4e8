#!/usr/bin/env python3
"""Milliseconds of plain PyTorch for the work of kernel_gpu_bench, on a GPU: name, type, ms, a line each.

Eager operators, as autograd calls them; the optimizer is torch's fused AdamW with the clipping and the
copy to bf16 that libmeg's kernel does on the way. Random numbers, as there. Exits 77 where there is no
PyTorch with a GPU.
"""

import statistics
import sys

try:
    import torch
except ImportError:
    sys.exit(77)

TOKENS, VOCABULARY, FFN_HIDDEN, PARAMETERS = 16384, 50304, 4096, 354871296
RUNS = 20


def milliseconds(run):
    times = []
    for _ in range(RUNS + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[3:])


def report(name, dtype, run):
    print(name, dtype, f"{milliseconds(run):.3f}", flush=True)


def cross_entropy(dtype, name):
    logits = torch.randn(TOKENS, VOCABULARY, device="cuda", dtype=dtype)
    labels = torch.randint(VOCABULARY, (TOKENS,), device="cuda")
    grad_losses = torch.randn(TOKENS, device="cuda", dtype=dtype)
    aten = torch.ops.aten

    def forward():
        log_softmax = aten._log_softmax(logits, 1, False)
        return log_softmax, aten.nll_loss_forward(log_softmax, labels, None, 0, -100)

    log_softmax, (_, weight) = forward()

    def backward():
        gradient = aten.nll_loss_backward(
            grad_losses, log_softmax, labels, None, 0, -100, weight)
        aten._log_softmax_backward_data(gradient, log_softmax, 1, dtype)

    report("cross_entropy_forward", name, forward)
    report("cross_entropy_backward", name, backward)


def bias_gelu(dtype, name):
    inputs = torch.randn(TOKENS, FFN_HIDDEN, device="cuda", dtype=dtype)
    bias = torch.randn(FFN_HIDDEN, device="cuda", dtype=dtype)
    aten = torch.ops.aten
    total = inputs + bias
    report("bias_gelu_forward", name, lambda: aten.gelu(inputs + bias, approximate="tanh"))
    report("bias_gelu_backward", name,
           lambda: aten.gelu_backward(inputs, total, approximate="tanh"))


def optimizer():
    gradient, master, exp_avg, exp_avg_sq = (
        torch.randn(PARAMETERS, device="cuda") for _ in range(4))
    exp_avg_sq.square_()
    weight = torch.zeros(PARAMETERS, device="cuda", dtype=torch.bfloat16)
    step = torch.ones((), device="cuda")

    def adam():
        torch._foreach_mul_([gradient], 0.5)
        torch._fused_adamw_([master], [gradient], [exp_avg], [exp_avg_sq], [], [step], lr=1e-4,
                            beta1=0.9, beta2=0.999, weight_decay=0.01, eps=1e-8, amsgrad=False,
                            maximize=False)
        weight.copy_(master)

    report("gradient_statistics", "fp32", lambda: torch._foreach_norm([gradient]))
    report("adam", "fp32", adam)


def main():
    if not torch.cuda.is_available():
        sys.exit(77)
    for dtype, name in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
        cross_entropy(dtype, name)
        bias_gelu(dtype, name)
    optimizer()


if __name__ == "__main__":
    with torch.no_grad():
        main()
