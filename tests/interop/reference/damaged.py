"""Copies of checkpoints in which the tests of verify break one thing."""
import json
import os
import shutil
import warnings
import zipfile

import torch

from reference import cases
from reference import files as reference_files


class DamagedCheckpoint:
    """A copy of an oracle's case in `folder`."""

    def __init__(self, case, folder):
        self.root = os.path.join(folder, case)
        shutil.copytree(cases.path(case), self.root)
        for parent, folders, files in os.walk(self.root):
            for name in folders + files:
                os.chmod(os.path.join(parent, name), 0o755)
        os.chmod(self.root, 0o755)
        self.iteration = reference_files.iteration_folder(self.root)
        self.ranks = cases.rank_folders(case)

    def file(self, rank):
        """rank: a place in the sorted list of rank folders."""
        return os.path.join(self.iteration, self.ranks[rank], "model_optim_rng.pt")

    def load(self, rank):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(self.file(rank), weights_only=False)

    def change(self, ranks, change):
        """change(state) for every one of these ranks; None: all."""
        for rank in range(len(self.ranks)) if ranks is None else ranks:
            state = self.load(rank)
            change(state)
            torch.save(state, self.file(rank))

    def flip(self, rank, entry, offset=0, bit=0x40):
        """One bit of an entry's content, from its end where offset is negative."""
        path = self.file(rank)
        with zipfile.ZipFile(path) as archive:
            info = next(one for one in archive.infolist() if one.filename.endswith(entry))
            with open(path, "rb") as file:
                file.seek(info.header_offset + 26)
                sizes = file.read(4)
            data = info.header_offset + 30 + int.from_bytes(sizes[:2], "little") + \
                int.from_bytes(sizes[2:], "little")
            at = data + (offset if offset >= 0 else info.file_size + offset)
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ bit]))

    def storage_of(self, rank, tensor):
        """The entry of a storage whose bytes are those of `tensor`."""
        wanted = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        with zipfile.ZipFile(self.file(rank)) as archive:
            return next(info.filename for info in archive.infolist()
                        if archive.read(info) == wanted)


def model(state):
    return state["model"]["language_model"]


def layer(state, name):
    return model(state)["encoder"][name]


def verify(program, what, *arguments):
    """(exit code, the JSON answer or None, standard error)"""
    done = cases.run(program, what, *arguments, "--json", "--workers", "2")
    answer = json.loads(done.stdout) if done.stdout else None
    return done.returncode, answer, done.stderr
