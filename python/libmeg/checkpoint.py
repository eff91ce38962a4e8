"""Checkpoints of any dialect and layout as one whole model, read when they are asked for."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from libmeg._core import CheckpointReader
from libmeg.errors import InvalidArgumentError, OutOfRangeError, UnsupportedError

if TYPE_CHECKING:
    import numpy
    import torch


def _numpy_dtype(name: str) -> numpy.dtype[Any]:
    import numpy

    if not name.startswith(("bfloat", "float8")):
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise UnsupportedError(
            f"numpy has no {name}: expected the package ml_dtypes, found none; torch() reads it with PyTorch"
        ) from None
    return numpy.dtype(getattr(ml_dtypes, name))


def _as_numpy(data: numpy.ndarray[Any, Any], tensor: Tensor) -> numpy.ndarray[Any, Any]:
    return data.view(_numpy_dtype(tensor.dtype)).reshape(tensor.shape)


def _as_torch(data: numpy.ndarray[Any, Any], tensor: Tensor) -> torch.Tensor:
    import torch

    dtype = getattr(torch, tensor.dtype)
    if not data.size:  # which no view makes another dtype of
        return torch.empty(tensor.shape, dtype=dtype)
    return torch.from_numpy(data).view(dtype).reshape(tensor.shape)


def _read(reader: CheckpointReader, tensors: list[Tensor]) -> list[numpy.ndarray[Any, Any]]:
    """The bytes of tensors, in new arrays of uint8."""
    import numpy

    arrays = [numpy.empty(tensor.nbytes, numpy.uint8) for tensor in tensors]
    reader.read([tensor._place for tensor in tensors], arrays)
    return arrays


class Tensor:
    """A tensor of a checkpoint, merged over the ranks, whose elements are not read yet.

    name: that of its parameter. kind: "weight", "exp_avg", "exp_avg_sq" or "fp32_param".
    shape: tuple of int. dtype: numpy's and torch's name, such as "bfloat16".
    """

    __slots__ = ("_place", "_reader", "dtype", "itemsize", "kind", "name", "shape")

    def __init__(
        self,
        reader: CheckpointReader,
        place: list[int],
        name: str,
        shape: tuple[int, ...],
        kind: str,
        dtype: str,
        itemsize: int,
    ) -> None:
        self._reader = reader
        self._place = place  # parameter, tensor, first element
        self.name = name
        self.shape = shape
        self.kind = kind
        self.dtype = dtype
        self.itemsize = itemsize

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for length in self.shape:
            count *= length
        return count

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """Read it into a new numpy array of its shape and dtype.

        Raises UnsupportedError for bfloat16 and float8 without the package ml_dtypes, CorruptionError and IoError for
        files that changed since they were opened, or whose CRC-32 is another one.
        """
        _numpy_dtype(self.dtype)  # which fails before anything is read
        return _as_numpy(_read(self._reader, [self])[0], self)

    def torch(self) -> torch.Tensor:
        """Read it into a new torch tensor on the CPU. Raises as numpy(), ImportError without PyTorch."""
        return _as_torch(_read(self._reader, [self])[0], self)

    def __getitem__(self, rows: int | slice) -> Tensor:
        """Some rows, or one, of the first dimension, not read yet either."""
        if not self.shape:
            raise OutOfRangeError(f"{self.name}: expected a dimension to index, found none")
        length = self.shape[0]
        if isinstance(rows, slice):
            begin, end, step = rows.indices(length)
            if step != 1:
                raise InvalidArgumentError(f"{self.name}: expected a slice of step 1, found {step}")
            shape = (max(end - begin, 0), *self.shape[1:])
        else:
            index = operator.index(rows)
            begin = index + length if index < 0 else index
            if not 0 <= begin < length:
                raise OutOfRangeError(f"{self.name}: expected a row below {length}, found {index}")
            shape = self.shape[1:]
        row = 1
        for size in self.shape[1:]:
            row *= size
        parameter, tensor, first = self._place
        place = [parameter, tensor, first + begin * row]
        return Tensor(self._reader, place, self.name, shape, self.kind, self.dtype, self.itemsize)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray[Any, Any]:
        if copy is False:
            raise InvalidArgumentError(f"{self.name}: expected to be read into new memory, found copy=False")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        """The elements for numpy.from_dlpack, torch.from_dlpack, jax and others; bfloat16 and float8 by PyTorch."""
        is_of_numpy = not self.dtype.startswith(("bfloat", "float8"))
        return (self.numpy() if is_of_numpy else self.torch()).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the CPU

    def __repr__(self) -> str:
        return f"<libmeg.Tensor {self.name} {self.kind} {self.dtype} {list(self.shape)}>"


class Optimizer(Mapping[str, Mapping[str, Tensor]]):
    """The optimizer of a checkpoint: for each parameter its state, by kind.

    optimizer["decoder.final_layernorm.weight"]["exp_avg"] is a Tensor. Empty where the checkpoint has no state.
    form: "none", "fp32", "mixed precision" or "distributed". is_distributed: whether the files have the form of the
    distributed optimizer. param_groups: a dict of settings for each kind of groups, such as "lr" and "weight_decay".
    step: the one that the parameters' state has; None where it stands in the groups.
    """

    def __init__(self, reader: CheckpointReader, state: dict[str, dict[str, Tensor]]) -> None:
        self._state = state
        self.form: str = reader.optimizer_form()
        self.is_distributed: bool = reader.optimizer_is_distributed()
        self.param_groups: list[dict[str, Any]] = reader.param_groups()
        self.step: int | None = reader.step()

    def __getitem__(self, name: str) -> Mapping[str, Tensor]:
        return self._state[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


class Checkpoint(Mapping[str, Tensor]):
    """A checkpoint as one whole model: a mapping from names of parameters to Tensors. From open_checkpoint().

    Names are megatron-core's with the layer's number in the whole model, whatever the files call them. Any number of
    threads may read. Files are opened when they are read; close(), or the end of a with block, ends that.
    """

    def __init__(self, reader: CheckpointReader, arguments: tuple[Any, ...]) -> None:
        self._reader = reader
        self._arguments = arguments
        self._weights: dict[str, Tensor] = {}
        self._state: dict[str, dict[str, Tensor]] = {}
        for i, (name, shape, kinds) in enumerate(reader.parameters()):
            weight, *state = (Tensor(reader, [i, j, 0], name, shape, *kind) for j, kind in enumerate(kinds))
            self._weights[name] = weight
            if state:
                self._state[name] = {tensor.kind: tensor for tensor in state}

    def __getitem__(self, name: str) -> Tensor:
        return self._weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files. Reading its tensors then raises InvalidArgumentError."""
        self._reader.close()

    @property
    def closed(self) -> bool:
        return self._reader.closed

    @property
    def path(self) -> str:
        """The folder, or the file, that was found: iter_0005000 and the like."""
        return self._reader.folder()

    @property
    def format(self) -> str:
        """ "torch" (mp_rank folders), "torch_dist", "Hugging Face" ..."""
        return self._reader.format()

    @property
    def iteration(self) -> int | None:
        return self._reader.iteration()

    @property
    def checkpoint_version(self) -> float:
        """Megatron-LM's; 0 where the files have none."""
        return self._reader.checkpoint_version()

    @property
    def tensor_model_parallel_size(self) -> int:
        return self._reader.parallel_sizes()[0]

    @property
    def pipeline_model_parallel_size(self) -> int:
        return self._reader.parallel_sizes()[1]

    @property
    def virtual_pipeline_model_parallel_size(self) -> int:
        """1: none."""
        return self._reader.parallel_sizes()[2]

    @property
    def expert_model_parallel_size(self) -> int:
        return self._reader.parallel_sizes()[3]

    @property
    def args(self) -> dict[str, Any]:
        """Megatron-LM's args as plain values; a class or an enum's member is its text. Empty where there are none."""
        return self._reader.args()

    @property
    def notes(self) -> list[str]:
        """What was left out because it changes no number, one line each."""
        return self._reader.notes()

    @property
    def optimizer(self) -> Optimizer:
        return Optimizer(self._reader, self._state)

    def state_dict(self, *, numpy: bool = False) -> dict[str, Any]:
        """All weights at once, read by threads into new memory: torch tensors, or numpy arrays with numpy=True.

        Raises as Tensor.torch() and Tensor.numpy().
        """
        tensors = list(self._weights.values())
        if numpy:
            for dtype in {tensor.dtype for tensor in tensors}:
                _numpy_dtype(dtype)
        convert = _as_numpy if numpy else _as_torch
        return {
            tensor.name: convert(data, tensor)
            for tensor, data in zip(tensors, _read(self._reader, tensors))
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return _open, self._arguments

    def __repr__(self) -> str:
        if self.closed:
            return "<libmeg.Checkpoint, closed>"
        return f"<libmeg.Checkpoint {self.path}, {self.format}, {len(self)} parameters>"


def _open(path: str, iteration: int | None, args: dict[str, Any], ignore_optimizer: bool) -> Checkpoint:
    arguments = (path, iteration, args, ignore_optimizer)
    return Checkpoint(CheckpointReader(*arguments), arguments)


def open_checkpoint(
    path: str | os.PathLike[str],
    iteration: int | None = None,
    *,
    args: Mapping[str, Any] | None = None,
    ignore_optimizer: bool = False,
) -> Checkpoint:
    """Open a checkpoint of any dialect and layout by its metadata; nothing in it is executed.

    path: a folder with a tracker, one of its iter_* or release folders, a Hugging Face folder, or one file.
    iteration: takes iter_<iteration> instead of what the tracker says.
    args: fields for checkpoints that have no args, such as {"num_attention_heads": 16}; those of the files go before.
    ignore_optimizer: leaves the optimizer out, so that a form of it that is not read is no error.

    Raises NotFoundError, also for missing rank files, CorruptionError for files that contradict themselves or each
    other, UnsupportedError, with its name, for what is not read.
    """
    number = None if iteration is None else operator.index(iteration)
    return _open(os.fsdecode(path), number, dict(args or {}), ignore_optimizer)
