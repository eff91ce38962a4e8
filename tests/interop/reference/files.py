"""Reading checkpoints by torch, with Megatron's classes as opaque values."""
import os
import pickle
import sys

import torch


class Opaque:
    """Stands for any class of Megatron's that cannot be imported here."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def __setstate__(self, state):
        self.state = state

    def __eq__(self, other):
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __repr__(self):
        return f"{type(self).__module__}.{type(self).__qualname__}{self.arguments}"


OPAQUE = {}


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if module.split(".")[0] in ("megatron", "deepspeed"):
            if (module, name) not in OPAQUE:
                OPAQUE[module, name] = type(name, (Opaque,), {"__module__": module})
            return OPAQUE[module, name]
        return super().find_class(module, name)


class PickleModule:
    Unpickler = Unpickler

    @staticmethod
    def load(file, **options):
        return Unpickler(file, **options).load()


def exchange(one, other):
    """Two files or folders under each other's names."""
    away = one + ".away"
    os.rename(one, away)
    os.rename(other, one)
    os.rename(away, other)


def load_file(path):
    """Files that the tests trust: Megatron's own of the oracle, and libmeg's."""
    return torch.load(path, map_location="cpu", weights_only=False, pickle_module=PickleModule)


def save_file(state, path):
    """What load_file() gave, or made of it."""
    for made in OPAQUE.values():
        module = sys.modules.setdefault(made.__module__, type(sys)(made.__module__))
        setattr(module, made.__name__, made)
    torch.save(state, path)


def iteration_folder(root):
    with open(os.path.join(root, "latest_checkpointed_iteration.txt")) as file:
        text = file.read().strip()
    return os.path.join(root, text if text == "release" else f"iter_{int(text):07d}")


def load_ranks(root):
    """(tensor rank, pipeline rank) -> the file's value."""
    folder, ranks = iteration_folder(root), {}
    for name in sorted(os.listdir(folder)):
        if not name.startswith("mp_rank_"):
            continue  # the tokenizer's files
        numbers = [int(number) for number in name.removeprefix("mp_rank_").split("_")]
        path = os.path.join(folder, name, "model_optim_rng.pt")
        ranks[numbers[0], numbers[1] if len(numbers) > 1 else 0] = load_file(path)
    return ranks
