"""Megatron-LM's datasets, checkpoints and tokenizers, without Megatron-LM and without a GPU."""

from libmeg import errors
from libmeg._core import __version__
from libmeg.errors import Error

__all__ = ["Error", "__version__", "errors"]
