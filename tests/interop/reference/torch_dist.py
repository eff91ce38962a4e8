"""What a torch_dist folder holds, read by torch and sorted out from the format alone."""
import io
import os

import torch
import torch.distributed.checkpoint as checkpoint

from reference import files
from reference.names import MCORE_ORDER, UNFUSED

LAYERS = "decoder.layers."
MASTERS = ("param", "fp32_param")


def read_metadata(folder):
    """torch's Metadata, with classes of Megatron's that this torch cannot import as opaque."""
    with open(os.path.join(folder, ".metadata"), "rb") as file:
        return files.Unpickler(file).load()


def read_tensors(folder):
    """name -> whole tensor, put together by torch."""
    wanted = {name: torch.empty(item.size, dtype=item.properties.dtype)
              for name, item in read_metadata(folder).state_dict_metadata.items()
              if hasattr(item, "size")}
    checkpoint.load(wanted, checkpoint_id=folder, no_dist=True)
    return wanted


def read_objects(folder):
    """name -> value."""
    found = {}
    metadata = read_metadata(folder)
    for index, place in metadata.storage_data.items():
        if hasattr(metadata.state_dict_metadata[index.fqn], "size"):
            continue
        with open(os.path.join(folder, place.relative_path), "rb") as file:
            file.seek(place.offset)
            content = io.BytesIO(file.read(place.length))
        found[index.fqn] = torch.load(content, weights_only=False, pickle_module=files.PickleModule)
    return found


def local_names(name, layers):
    """The names of mcore's local layers, one a layer where the tensor is stacked."""
    if not name.startswith(LAYERS):
        return [name]
    pattern = LAYERS + "{}." + name[len(LAYERS):]
    pattern = UNFUSED.get(pattern, pattern)
    return [pattern.format(layer) for layer in range(layers)]


def unflattened(flat, shape):
    """Parts of a tensor of this shape, each in a row of the last dimension, back in their places."""
    counts = flat.shape[1:-1]
    inner = [size // count for size, count in zip(shape[1:], counts)]
    parts = flat.reshape(shape[0], *counts, *inner)
    order, dimensions = [0], len(counts)
    for i in range(dimensions):
        order += [1 + i, 1 + dimensions + i]
    return parts.permute(order).reshape(shape)


def read(folder):
    """canonical name -> {"weight", "fp32_param", "exp_avg" ...: tensor}"""
    tensors, found = read_tensors(folder), {}
    weights = {name: tensor for name, tensor in tensors.items() if not name.startswith("optimizer.")}
    for name, tensor in tensors.items():
        kind, owner = "weight", name
        if name.startswith("optimizer.state."):
            kind, owner = name[len("optimizer.state."):].split(".", 1)
        elif name.startswith("optimizer."):
            continue
        weight = weights[owner]
        if tensor.shape != weight.shape:
            stacked = owner.startswith(LAYERS)
            shape = weight.shape if stacked else (1, *weight.shape)
            tensor = unflattened(tensor if stacked else tensor[None], shape).reshape(weight.shape)
        names = local_names(owner, weight.shape[0] if weight.ndim else 0)
        for layer, local in enumerate(names):
            part = tensor[layer] if owner.startswith(LAYERS) else tensor
            found.setdefault(local, {})["fp32_param" if kind in MASTERS else kind] = part
    return found


def reverse_order(found):
    """Names as a distributed optimizer's buffer has them: named_parameters() backwards."""
    layers = 1 + max(int(name.split(".")[2]) for name in found if name.startswith(LAYERS))
    names = ["embedding.word_embeddings.weight", "embedding.position_embeddings.weight"]
    for layer in range(layers):
        for module in MCORE_ORDER:
            names += [f"{LAYERS}{layer}.{module}.{part}" for part in ("weight", "bias")]
    names += ["decoder.final_layernorm.weight", "decoder.final_layernorm.bias",
              "output_layer.weight"]
    return [name for name in reversed(names) if name in found]


def rank_buffers(folder):
    """kind -> the flat buffer of each tensor rank, whichever way it was saved."""
    tensors, buffers = read_tensors(folder), {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer.distributed."):
            rank, kind = int(name.split("dp_group_idx_")[1].split(".")[0]), name.rsplit(".", 1)[1]
            buffers.setdefault(kind, {})[rank] = tensor
    for name, value in read_objects(folder).items():
        if ".param_state/" in name:
            rank = int(name.split("dp_group_idx_")[1].split(".")[0])
            (state,) = value[0][0].values()
            for kind in ("param", "exp_avg", "exp_avg_sq"):
                buffers.setdefault(kind, {})[rank] = state[kind]
    return buffers
