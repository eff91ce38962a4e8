"""A plain second implementation of what a checkpoint means, written from the format alone.

merge() puts the rank files of a Megatron checkpoint together into one model; expect() says what
every rank of another layout must hold. Neither knows anything of libmeg's own code, so that agreement of
the two means something. Everything is in memory and slow; small checkpoints only.
"""
import collections

import torch

from reference import files
from reference.names import (LEGACY_ORDER, MCORE_LAYER, MCORE_ORDER, OUTPUT, TE_ORDER, TIED,
                             VOCABULARY, WORD, canonical, chunks_of, family_of, spelled, with_layer)


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
        self.vocab_size = get("vocab_size")
        # Before core 0.18 without its end of document.
        if get("tokenizer_type") == "NullTokenizer" and not hasattr(args, "null_tokenizer_eod_id"):
            self.vocab_size += 1
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
            shards = [s.reshape(3, heads, -1, *rest).transpose(0, 1) for s in shards]
        else:
            shards = [s.reshape(heads, -1, 3, *rest).transpose(1, 2) for s in shards]
        shards = [s.reshape(-1, *rest) for s in shards]
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
        self.uneven = None        # Layers of every stage, where they are to differ.


def names_of_rank(state, stage, first_layers, tied):
    """[(chunk, flat name, canonical name in the whole model)] in named_parameters() order, and
    the tensors in that order."""
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
    ranks = result.ranks = files.load_ranks(root)
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


def stated_vocabulary(merged):
    """The vocabulary of args, if Megatron pads it to the table's rows at any tensor size."""
    config, rows = merged.config, merged.tensors[WORD]["weight"].shape[0]
    padded = [padded_size(config.vocab_size, config.divisible_by, tp)
              for tp in range(1, config.heads + 1) if config.vocab_size and config.heads % tp == 0]
    return config.vocab_size if rows in padded else None


def resized(table, rows, kind):
    if rows <= table.shape[0]:
        return table[:rows]
    more = rows - table.shape[0]
    if kind in ("weight", "fp32_param"):
        return torch.cat([table, table[-1:].expand(more, -1)])
    return torch.cat([table, table.new_zeros(more, table.shape[1])])


def stage_names(merged, pp, vpp, stage, family):
    """[(chunk, layer in the chunk, canonical with {}, canonical with its number)] of a stage in
    named_parameters() order."""
    order = {"mcore": MCORE_ORDER, "te": TE_ORDER}.get(family, LEGACY_ORDER)
    config, rows = merged.config, []
    for chunk in range(vpp):
        per = config.layers // (pp * vpp)
        first = chunk * (config.layers // vpp) + stage * per
        if merged.uneven:
            first, per = sum(merged.uneven[:stage]), merged.uneven[stage]
        if stage == 0 and chunk == 0:
            rows += [(chunk, None, name, name)
                     for name in (WORD, "embedding.position_embeddings.weight")
                     if name in merged.tensors]
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
