"""HybridModel of megatron-core 0.19 on a CPU, its layers those of a GPT model.

Its own layers are Transformer Engine's; here megatron-core's local ones stand for them, with the norm
in front of a matrix among the matrix's parameters, as Transformer Engine has it.
"""
import torch
from megatron.core.fusions.fused_bias_dropout import get_bias_dropout_add
from megatron.core.models.hybrid import hybrid_block
from megatron.core.models.hybrid.hybrid_model import HybridModel
from megatron.core.ssm.mlp_layer import MLPLayer
from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
from megatron.core.transformer.attention import SelfAttention, SelfAttentionSubmodules
from megatron.core.transformer.dot_product_attention import DotProductAttention
from megatron.core.transformer.enums import AttnMaskType
from megatron.core.transformer.mlp import MLP, MLPSubmodules
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.spec_utils import ModuleSpec
from megatron.core.transformer.torch_norm import WrappedTorchNorm
from megatron.core.transformer.transformer_layer import TransformerLayer, TransformerLayerSubmodules

from megatron_core import models as core


class NormedColumnParallelLinear(ColumnParallelLinear):
    """A norm and a matrix: layer_norm_weight, layer_norm_bias, weight, bias."""

    def __init__(self, input_size, output_size, **options):
        options = {name: value for name, value in options.items() if name != "name"}
        super().__init__(input_size, output_size, **options)
        own = {name: self._parameters.pop(name) for name in list(self._parameters)}
        dtype = self.config.params_dtype
        self.layer_norm_weight = torch.nn.Parameter(torch.ones(input_size, dtype=dtype))
        self.layer_norm_bias = torch.nn.Parameter(torch.zeros(input_size, dtype=dtype))
        self._parameters.update(own)

    def forward(self, hidden, *arguments, **options):
        normed = torch.nn.functional.layer_norm(
            hidden, hidden.shape[-1:], self.layer_norm_weight, self.layer_norm_bias,
            self.config.layernorm_epsilon)
        return super().forward(normed, *arguments, **options)


def stack_spec():
    hybrid_block.TENorm = WrappedTorchNorm
    attention = ModuleSpec(
        module=SelfAttention, params={"attn_mask_type": AttnMaskType.causal},
        submodules=SelfAttentionSubmodules(
            linear_qkv=NormedColumnParallelLinear, core_attention=DotProductAttention,
            linear_proj=RowParallelLinear))
    mlp = ModuleSpec(module=MLP, submodules=MLPSubmodules(
        linear_fc1=NormedColumnParallelLinear, linear_fc2=RowParallelLinear))
    return ModuleSpec(
        module=hybrid_block.HybridStack,
        submodules=hybrid_block.HybridStackSubmodules(
            attention_layer=ModuleSpec(
                module=TransformerLayer, submodules=TransformerLayerSubmodules(
                    self_attention=attention, self_attn_bda=get_bias_dropout_add)),
            mlp_layer=ModuleSpec(
                module=MLPLayer, submodules=TransformerLayerSubmodules(
                    mlp=mlp, mlp_bda=get_bias_dropout_add))))


def make_model(args):
    """The model that GPT's args describe, its layers taken apart."""
    gpt = core.make_model(args)
    config = gpt.config
    config.num_layers = 2 * args.num_layers
    model = HybridModel(
        config, stack_spec(), vocab_size=args.padded_vocab_size,
        max_sequence_length=args.max_position_embeddings,
        hybrid_layer_pattern="*-" * args.num_layers,
        share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
        position_embedding_type=args.position_embedding_type)
    return Float16Module(config, model) if args.bf16 else model
