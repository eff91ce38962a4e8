"""Megatron-LM's datasets, checkpoints and tokenizers, without Megatron-LM and without a GPU."""

import importlib
import os

from libmeg import errors
from libmeg._core import BlendedDataset, GPTDataset, IndexedDataset, IndexedDatasetBuilder, Tokenizer, __version__
from libmeg.checkpoint import Checkpoint, open_checkpoint
from libmeg.errors import Error

# Imported when they are first used, for what they import takes longer than everything else here.
_LATER = {name: "libmeg.programs" for name in ("merge", "preprocess", "reshape", "verify")}
_LATER["gpt_datasets"] = "libmeg.samples"

__all__ = [
    "BlendedDataset",
    "Checkpoint",
    "Error",
    "GPTDataset",
    "IndexedDataset",
    "IndexedDatasetBuilder",
    "Tokenizer",
    "__version__",
    "errors",
    "find_shims",
    "open_checkpoint",
    *_LATER,
]


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module 'libmeg' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)


def __dir__():
    return __all__


def find_shims() -> str:
    """The folder of scripts under Megatron-LM's names (tools/preprocess_data.py ...) that run libmeg's programs."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "share", "libmeg", "megatron")
