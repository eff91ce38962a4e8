"""A plain second implementation of what a checkpoint means, written from the format alone.

merge() puts the rank files of a Megatron checkpoint together into one model; expect() says what every
rank of another layout must hold. Neither knows anything of libmeg's own code, so that agreement of
the two means something. Everything is in memory and slow; small checkpoints only.
"""
import collections
import os
import pickle
import re

import torch

# Legacy spelling below `language_model`, layer numbers as {} -> mcore's local spelling.
LAYER = "encoder.layers.{}."
MCORE_LAYER = "decoder.layers.{}."
LEGACY = {
    "embedding.word_embeddings.weight": "embedding.word_embeddings.weight",
    "embedding.position_embeddings.weight": "embedding.position_embeddings.weight",
    "output_layer.weight": "output_layer.weight",
}
NORMS = {"input_layernorm": "input_layernorm",
         "post_attention_layernorm": "pre_mlp_layernorm"}
LINEARS = {"self_attention.query_key_value": "self_attention.linear_qkv",
           "self_attention.dense": "self_attention.linear_proj",
           "mlp.dense_h_to_4h": "mlp.linear_fc1", "mlp.dense_4h_to_h": "mlp.linear_fc2"}
for part in ("weight", "bias"):
    for legacy, mcore in {**NORMS, **LINEARS}.items():
        LEGACY[f"{LAYER}{legacy}.{part}"] = f"{MCORE_LAYER}{mcore}.{part}"
    LEGACY[f"encoder.final_layernorm.{part}"] = f"decoder.final_layernorm.{part}"
MCORE = {mcore: legacy for legacy, mcore in LEGACY.items()}
# Transformer Engine keeps a norm inside the linear layer that follows it.
FUSED = {f"{MCORE_LAYER}{norm}.{part}": f"{MCORE_LAYER}{linear}.layer_norm_{part}"
         for norm, linear in (("input_layernorm", "self_attention.linear_qkv"),
                              ("pre_mlp_layernorm", "mlp.linear_fc1"))
         for part in ("weight", "bias")}
UNFUSED = {fused: norm for norm, fused in FUSED.items()}
WORD = "embedding.word_embeddings.weight"
OUTPUT = "output_layer.weight"
TIED = "tied copy"
VOCABULARY = (WORD, OUTPUT, TIED)

# A layer's parameters in the order of named_parameters(): legacy, mcore local, mcore TE.
LEGACY_ORDER = ["input_layernorm", "self_attention.linear_qkv", "self_attention.linear_proj",
                "pre_mlp_layernorm", "mlp.linear_fc1", "mlp.linear_fc2"]
MCORE_ORDER = ["input_layernorm", "self_attention.linear_proj", "self_attention.linear_qkv",
               "pre_mlp_layernorm", "mlp.linear_fc1", "mlp.linear_fc2"]
TE_ORDER = ["self_attention.linear_proj", "input_layernorm", "self_attention.linear_qkv",
            "pre_mlp_layernorm", "mlp.linear_fc1", "mlp.linear_fc2"]


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


def load_file(path):
    """Files that the tests trust: Megatron's own of the oracle, and libmeg's."""
    return torch.load(path, map_location="cpu", weights_only=False, pickle_module=PickleModule)


def iteration_folder(root):
    with open(os.path.join(root, "latest_checkpointed_iteration.txt")) as file:
        text = file.read().strip()
    return os.path.join(root, text if text == "release" else f"iter_{int(text):07d}")


def load_ranks(root):
    """(tensor rank, pipeline rank) -> the file's value."""
    folder, ranks = iteration_folder(root), {}
    for name in sorted(os.listdir(folder)):
        numbers = [int(number) for number in name.removeprefix("mp_rank_").split("_")]
        path = os.path.join(folder, name, "model_optim_rng.pt")
        ranks[numbers[0], numbers[1] if len(numbers) > 1 else 0] = load_file(path)
    return ranks


def flat(tree, prefix=""):
    """Nested dicts with their keys joined by dots, in order."""
    result = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            result.update(flat(value, f"{prefix}{key}."))
        else:
            result[f"{prefix}{key}"] = value
    return result


def chunks_of(state):
    """[model] or [model0, model1, ...], flat."""
    if "model" in state:
        return [flat(state["model"])]
    keys = sorted((key for key in state if re.fullmatch(r"model\d+", key)), key=lambda k: int(k[5:]))
    return [flat(state[key]) for key in keys]


def family_of(names):
    if any(".transformer." in name for name in names):
        return "old"
    if any(name.startswith("transformer.") for name in names):
        return "flat"
    if any(".linear_qkv.layer_norm_weight" in name for name in names):
        return "te"
    if any(name.startswith("decoder.") for name in names):
        return "mcore"
    return "legacy"


def canonical(name, tied):
    """mcore's local spelling of a flat name with {} for the layer, and the layer; or None."""
    match = re.search(r"\.layers\.(\d+)\.", name)
    layer = int(match[1]) if match else None
    if match:
        name = f"{name[:match.start(1)]}{{}}{name[match.end(1):]}"
    if name.endswith("_extra_state") or name.endswith("rotary_pos_emb.inv_freq"):
        return None, layer
    if name == "word_embeddings_for_head.weight":
        return TIED, layer
    if name.startswith("decoder.") or name in (WORD, "embedding.position_embeddings.weight", OUTPUT):
        name = UNFUSED.get(name, name)
        assert name in MCORE, name
        return (TIED if tied and name == OUTPUT else name), layer
    name = name.removeprefix("language_model.")
    if not name.startswith(("embedding.", "encoder.", "transformer.", "output_layer.")):
        name = "embedding." + name
    name = name.replace("transformer.", "encoder.", 1) if name.startswith("transformer.") else name
    name = name.replace(".attention.", ".self_attention.")
    for short, long in (("input_norm", "input_layernorm"),
                        ("post_attention_norm", "post_attention_layernorm"),
                        ("final_norm", "final_layernorm")):
        name = name.replace(f".{short}.", f".{long}.")
    return LEGACY[name], layer


class Config:
    def __init__(self, args, ranks, heads=None):
        get = lambda name, default=None: getattr(args, name, default) if args else default
        self.args = args
        self.tp = get("tensor_model_parallel_size") or get("model_parallel_size") or \
            1 + max(t for t, _ in ranks)
        self.pp = get("pipeline_model_parallel_size") or 1 + max(p for _, p in ranks)
        self.vpp = get("virtual_pipeline_model_parallel_size") or 1
        self.heads = get("num_attention_heads") or heads
        self.groups = get("num_query_groups") if get("group_query_attention") else self.heads
        self.swiglu = bool(get("swiglu"))
        self.tied = not get("untie_embeddings_and_output_weights", False)
        self.divisible_by = get("make_vocab_size_divisible_by", 128)
        self.layers = get("num_layers")


def split_axis(name):
    if name in VOCABULARY:
        return 0
    if "linear_qkv" in name or "linear_fc1" in name:
        return 0
    if name.endswith(("linear_proj.weight", "linear_fc2.weight")):
        return 1
    return None


def join(name, shards, config, version):
    """The merged tensor of a list of shards by tensor rank."""
    axis = split_axis(name)
    if axis is None:
        return shards[0].clone()
    if "linear_qkv" in name and version < 2:
        heads, rest = config.heads // config.tp, shards[0].shape[1:]
        if version == 0:
            shards = [s.reshape(3, heads, -1, *rest).transpose(0, 1).reshape(s.shape) for s in shards]
        else:
            shards = [s.reshape(heads, -1, 3, *rest).transpose(1, 2).reshape(s.shape) for s in shards]
    if "linear_fc1" in name and config.swiglu:
        halves = [s.chunk(2) for s in shards]
        return torch.cat([gate for gate, _ in halves] + [up for _, up in halves])
    return torch.cat(shards, axis)


def cut(name, merged, rank, tp, swiglu):
    """One rank's shard of a merged tensor."""
    axis = split_axis(name)
    if axis is None:
        return merged
    if "linear_fc1" in name and swiglu:
        return torch.cat([half.chunk(tp)[rank] for half in merged.chunk(2)])
    assert merged.shape[axis] % tp == 0, (name, merged.shape, tp)
    return merged.chunk(tp, axis)[rank]


def optimizer_parts(optimizer):
    """state, param_groups and masters (None for an fp32 optimizer) of any spelling."""
    if not optimizer:
        return None
    inner = optimizer.get("optimizer", optimizer.get("optimizer_state_dict", optimizer))
    masters = optimizer.get("fp32_from_fp16_params", optimizer.get("fp32_from_fp16"))
    if "state" not in inner:
        return None
    return inner["state"], inner["param_groups"], masters


class Merged:
    """One whole model."""

    def __init__(self):
        self.tensors = collections.OrderedDict()  # canonical name -> {kind: tensor}
        self.config = None
        self.version = 0
        self.family = ""
        self.short_norms = False
        self.decay_first = True
        self.groups = {}          # wd_mult -> the group without params, or {}
        self.first_stage_orders = {}
        self.ranks = {}
        self.rank_names = {}      # (t, p) -> [(chunk, flat name, canonical with the layer)]


def with_layer(name, layer):
    return name if layer is None else name.format(layer)


def names_of_rank(state, stage, first_layers, tied):
    """[(chunk, flat name, canonical name in the whole model)] in named_parameters() order, and the
    tensors in that order."""
    names, tensors = [], []
    for number, chunk in enumerate(chunks_of(state)):
        for name, tensor in chunk.items():
            known, layer = canonical(name, tied)
            if known is None:
                continue
            layer = None if layer is None else layer + first_layers[stage, number]
            names.append((number, name, with_layer(known, layer)))
            tensors.append(tensor)
    return names, tensors


def layers_in(chunk):
    numbers = [canonical(name, True)[1] for name in chunk]
    return 1 + max((number for number in numbers if number is not None), default=-1)


def first_layers_of(ranks, config):
    """Number of the first layer of every (stage, chunk): chunks in the model's order, counted."""
    counts = {(p, c): layers_in(chunk) for p in range(config.pp)
              for c, chunk in enumerate(chunks_of(ranks[0, p]))}
    first, at = {}, 0
    for chunk in range(config.vpp):
        for stage in range(config.pp):
            first[stage, chunk] = at
            at += counts[stage, chunk]
    return first, at


def merge(root, heads=None):
    """heads: for checkpoints without args."""
    result = Merged()
    ranks = result.ranks = load_ranks(root)
    args = ranks[0, 0].get("args")
    config = result.config = Config(args, ranks, heads)
    assert len(ranks) == config.tp * config.pp, "rank files are missing"
    version = result.version = ranks[0, 0].get("checkpoint_version", 0)
    first_layers, config.layers = first_layers_of(ranks, config)
    all_names = chunks_of(ranks[0, 0])[0]
    result.family = family_of(all_names)
    result.short_norms = any(".input_norm." in name for name in all_names)
    for stage in range(config.pp):
        shards = [names_of_rank(ranks[t, stage], stage, first_layers, config.tied)
                  for t in range(config.tp)]
        names = shards[0][0]
        for t in range(config.tp):
            assert shards[t][0] == names
            result.rank_names[t, stage] = names
        for index, (_, _, name) in enumerate(names):
            result.tensors[name] = {
                "weight": join(name, [tensors[index] for _, tensors in shards], config, version)}
        merge_optimizer(result, stage, names)
    if TIED in result.tensors:
        for kind, tensor in result.tensors.pop(TIED).items():
            assert torch.equal(tensor, result.tensors[WORD][kind]), f"the tied copy's {kind} differs"
    return result


def merge_optimizer(result, stage, names):
    config = result.config
    parts = [optimizer_parts(result.ranks[t, stage].get("optimizer")) for t in range(config.tp)]
    if parts[0] is None:
        return
    groups = parts[0][1]
    # core 0.6 to 0.15, whose groups stand in the order in which a stage first needs them.
    result.decay_first = "is_decoupled_lr" not in groups[0] or "default_config" in groups[0]
    if result.decay_first:
        assert [group["wd_mult"] for group in groups] == [1.0, 0.0]
    weights = {name: result.tensors[name]["weight"] for _, _, name in names}
    place = 0
    for number, group in enumerate(groups):
        result.groups[group["wd_mult"]] = {k: v for k, v in group.items() if k != "params"}
        decayed = group["wd_mult"] > 0
        mine = [name for _, _, name in names
                if decayed == (weights[name].dim() > 1 and not name.endswith(".bias"))]
        assert list(group["params"]) == list(range(place, place + len(mine)))
        place += len(mine)
        for index, name in enumerate(mine):
            per_rank = [state[group["params"][index]] for state, _, _ in parts] \
                if parts[0][0] else []
            for kind in per_rank[0] if per_rank else ():
                if isinstance(per_rank[0][kind], torch.Tensor) and per_rank[0][kind].dim():
                    result.tensors[name][kind] = join(
                        name, [state[kind] for state in per_rank], config, result.version)
            if parts[0][2] is not None:
                result.tensors[name]["fp32_param"] = join(
                    name, [masters[number][index] for _, _, masters in parts], config,
                    result.version)
    assert place == len(names)


# ---- The other direction ----


def padded_size(size, divisible_by, tp):
    multiple = divisible_by * tp
    return -(-size // multiple) * multiple


def resized(table, rows, kind):
    if rows <= table.shape[0]:
        return table[:rows]
    more = rows - table.shape[0]
    if kind in ("weight", "fp32_param"):
        return torch.cat([table, table[-1:].expand(more, -1)])
    return torch.cat([table, table.new_zeros(more, table.shape[1])])


def spelled(name, layer, family, short_norms):
    """The flat name of a canonical one; layer counts in the chunk."""
    if family == "mcore":
        return with_layer(OUTPUT if name == TIED else name, layer)
    if family == "te":
        return with_layer(FUSED.get(name, OUTPUT if name == TIED else name), layer)
    if name == TIED:
        return "word_embeddings_for_head.weight"
    spelling = MCORE[name]
    if short_norms:
        spelling = spelling.replace("layernorm", "norm")
    if family in ("old", "flat"):
        spelling = spelling.replace("encoder.", "transformer.").replace("self_", "")
    if family == "flat":
        return with_layer(spelling.removeprefix("embedding."), layer)
    return "language_model." + with_layer(spelling, layer)


def stage_names(merged, pp, vpp, stage, family):
    """[(chunk, layer in the chunk, canonical with {}, canonical with its number)] of a stage in
    named_parameters() order."""
    order = {"mcore": MCORE_ORDER, "te": TE_ORDER}.get(family, LEGACY_ORDER)
    config, rows = merged.config, []
    per = config.layers // (pp * vpp)
    for chunk in range(vpp):
        if stage == 0 and chunk == 0:
            rows += [(chunk, None, name, name)
                     for name in (WORD, "embedding.position_embeddings.weight")
                     if name in merged.tensors]
        first = chunk * (config.layers // vpp) + stage * per
        for layer in range(per):
            for module in order:
                for part in ("weight", "bias"):
                    name = f"{MCORE_LAYER}{module}.{part}"
                    whole = name.format(first + layer)
                    if whole in merged.tensors:
                        rows.append((chunk, layer, name, whole))
        if stage == pp - 1 and chunk == vpp - 1:
            rows += [(chunk, None, name, name) for name in
                     ("decoder.final_layernorm.weight", "decoder.final_layernorm.bias", OUTPUT)
                     if name in merged.tensors]
            if config.tied and pp > 1:
                rows.append((chunk, None, TIED, WORD))
    return rows


class ExpectedRank:
    def __init__(self):
        self.chunks = []      # [{flat name: weight}], in named_parameters() order
        self.groups = []      # [{wd_mult, names: [(chunk, flat name)]}]
        self.optimizer = {}   # (chunk, flat name) -> {kind: tensor}


def target_tensors(merged, tp, true_vocab):
    """The merged tensors with the vocabulary padded for tp."""
    tensors = {name: dict(kinds) for name, kinds in merged.tensors.items()}
    height = tensors[WORD]["weight"].shape[0]
    rows = padded_size(true_vocab, merged.config.divisible_by, tp) if true_vocab else height
    for name in (WORD, OUTPUT):
        for kind, tensor in tensors.get(name, {}).items():
            tensors[name][kind] = resized(tensor, rows, kind)
    return tensors, rows


def expect(merged, tp, pp, vpp=1, family=None, dtype=None, true_vocab=None, decay_first=None):
    """(tensor rank, stage) -> ExpectedRank, and the padded size of the vocabulary."""
    family = family or merged.family
    # A model of core that becomes a legacy one gets the words that legacy had by then.
    args = merged.config.args
    short_norms = merged.short_norms or merged.family in ("mcore", "te") and (
        hasattr(args, "use_mcore_models") or hasattr(args, "use_legacy_models"))
    decay_first = merged.decay_first if decay_first is None else decay_first
    tensors, rows = target_tensors(merged, tp, true_vocab)
    result = {}
    for stage in range(pp):
        names = stage_names(merged, pp, vpp, stage, family)
        for rank in range(tp):
            result[rank, stage] = expect_rank(merged, tensors, names, rank, tp, vpp, family,
                                              short_norms, dtype, decay_first)
    return result, rows


def expect_rank(merged, tensors, names, rank, tp, vpp, family, short_norms, dtype, decay_first):
    result = ExpectedRank()
    result.chunks = [collections.OrderedDict() for _ in range(vpp)]
    groups = collections.OrderedDict()
    if decay_first:
        groups = collections.OrderedDict([(1.0, []), (0.0, [])])
    for chunk, layer, name, whole in names:
        spelling = spelled(name, layer, family, short_norms)
        pieces = {kind: cut(name, tensor, rank, tp, merged.config.swiglu)
                  for kind, tensor in tensors[whole].items()}
        weight = pieces.pop("weight")
        result.chunks[chunk][spelling] = weight if dtype is None else weight.to(dtype)
        decay = 1.0 if weight.dim() > 1 and not name.endswith(".bias") else 0.0
        groups.setdefault(decay, []).append((chunk, spelling))
        result.optimizer[chunk, spelling] = pieces
    result.groups = [{"wd_mult": decay, "names": mine} for decay, mine in groups.items()]
    return result
