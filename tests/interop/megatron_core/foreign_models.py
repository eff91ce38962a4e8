"""Models of the real megatron-core that libmeg does not take, and one that it does."""
import json
import os

import torch
import torch.distributed.checkpoint
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec, get_gpt_mtp_block_spec
from megatron.core.transformer import multi_latent_attention
from megatron.core.transformer.dot_product_attention import DotProductAttention
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

from megatron_core import models as core
from megatron_core.ranks import HEADS, HIDDEN, LAYERS, POSITIONS, VOCABULARY, model_args

SIZES = dict(num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, ffn_hidden_size=4 * HIDDEN,
             use_cpu_initialization=True, bias_dropout_fusion=False, masked_softmax_fusion=False,
             apply_rope_fusion=False)


class LatentAttention(DotProductAttention):
    """torch's attention has no such sizes: the model is built, not run."""

    def __init__(self, *arguments, k_channels=None, v_channels=None, **options):
        super().__init__(*arguments, **options)


def gpt(**options):
    return GPTModel(TransformerConfig(**SIZES, **options), get_gpt_layer_local_spec(), VOCABULARY, POSITIONS,
                    share_embeddings_and_output_weights=True)


def latent_attention(q_lora_rank):
    multi_latent_attention.TELinear = ()  # None where Transformer Engine is not installed
    has_norms = q_lora_rank is not None
    config = MLATransformerConfig(
        **SIZES, multi_latent_attention=True, q_lora_rank=q_lora_rank, kv_lora_rank=16, qk_head_dim=8,
        qk_pos_emb_head_dim=4, v_head_dim=8, rope_type="rope", qk_layernorm=has_norms)
    spec = get_gpt_layer_local_spec(multi_latent_attention=True, qk_layernorm=has_norms)
    spec.submodules.self_attention.submodules.core_attention = LatentAttention
    return GPTModel(config, spec, VOCABULARY, POSITIONS, position_embedding_type="rope",
                    share_embeddings_and_output_weights=True)


def predicted_tokens():
    config = TransformerConfig(**SIZES, mtp_num_layers=1)
    spec = get_gpt_layer_local_spec()
    return GPTModel(config, spec, VOCABULARY, POSITIONS, share_embeddings_and_output_weights=True,
                    mtp_block_spec=get_gpt_mtp_block_spec(config, spec, use_transformer_engine=False))


def save(folder, model, **args):
    """As rank files in `ranks`, and by torch.distributed.checkpoint with the same names in `dist`."""
    common = {"args": model_args(ffn_hidden_size=4 * HIDDEN, **args), "checkpoint_version": 3.0,
              "iteration": 1}
    state = {name: tensor for name, tensor in model.state_dict().items() if torch.is_tensor(tensor)}
    for form in ("ranks", "dist"):
        root = os.path.join(folder, form)
        path = os.path.join(root, "iter_0000001")
        os.makedirs(os.path.join(path, "mp_rank_00") if form == "ranks" else path)
        with open(os.path.join(root, "latest_checkpointed_iteration.txt"), "w") as file:
            file.write("1")
    torch.save({**common, "model": state}, os.path.join(folder, "ranks", "iter_0000001", "mp_rank_00",
                                                        "model_optim_rng.pt"))
    torch.distributed.checkpoint.save(state, checkpoint_id=path, no_dist=True)
    torch.save(common, os.path.join(path, "common.pt"))
    with open(os.path.join(path, "metadata.json"), "w") as file:
        json.dump({"sharded_backend": "torch_dist", "sharded_backend_version": 1}, file)


def main(folder):
    core.start_without_gpu()
    made = {
        "plain": (gpt(), {}),
        "latent_attention": (latent_attention(None), {"multi_latent_attention": True}),
        "low_rank_queries": (latent_attention(16), {"multi_latent_attention": True}),
        "predicted_tokens": (predicted_tokens(), {"mtp_num_layers": 1}),
        "output_gate": (gpt(attention_output_gate=True), {"attention_output_gate": True})}
    for name, (model, args) in made.items():
        save(os.path.join(folder, name), model, **args)
