"""Names of parameters in every dialect of Megatron, from the format alone, for the reference."""
import re

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


def with_layer(name, layer):
    return name if layer is None else name.format(layer)


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
