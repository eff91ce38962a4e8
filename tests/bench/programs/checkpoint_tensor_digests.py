#!/usr/bin/env python3
"""One line for each tensor of a checkpoint: file, path of keys, type, shape and SHA-1.

checkpoint_tensor_digests.py FOLDER
Model, masters, moments and grad scaler as torch.load reads them; random states, which are reseeded
where ranks change, are left out.
"""
import glob
import hashlib
import os
import sys

import torch


def tensors(value, path):
    """Every tensor below `value` with its path of keys."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors(item, f"{path}/{key}")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from tensors(item, f"{path}/{number}")


def digest(tensor):
    whole = tensor.contiguous().reshape(-1)
    return hashlib.sha1(whole.view(torch.uint8).numpy() if whole.numel() else b"").hexdigest()


def main():
    folder = sys.argv[1]
    pattern = os.path.join(folder, "iter_*", "mp_rank_*", "model_optim_rng.pt")
    lines = []
    for path in glob.glob(pattern):
        state = torch.load(path, map_location="cpu", mmap=True, weights_only=False)
        state.pop("rng_state", None)
        for keys, tensor in tensors(state, ""):
            lines.append(f"{os.path.relpath(path, folder)} {keys} {tensor.dtype} "
                         f"{list(tensor.shape)} {digest(tensor)}")
    if not lines:
        sys.exit(f"{folder}: no tensors")
    print("\n".join(sorted(lines)))


if __name__ == "__main__":
    main()
