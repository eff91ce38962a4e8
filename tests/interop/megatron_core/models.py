"""Models of the real megatron-core (PyPI) on a CPU, as training with given args would build them."""
import contextlib
import multiprocessing.dummy
import os
import queue
import types

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # compiling costs more than it saves here

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.activations import squared_relu
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.fusions import fused_layer_norm, fused_softmax
from megatron.core.fusions.fused_bias_geglu import quick_gelu
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec
from megatron.core.tensor_parallel import random
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from megatron.core.transformer.transformer_config import TransformerConfig


def lead_tensors_to_the_cpu():
    """megatron-core's optimizers make their scalars on "cuda"."""
    def led(make):
        return lambda *data, **options: make(*data, **(options | (
            {"device": "cpu"} if options.get("device") == "cuda" else {})))

    torch.tensor, torch.zeros = led(torch.tensor), led(torch.zeros)


def call_types_cuda():
    """megatron-core's distributed optimizer recognises parameters by the names of their CUDA types."""
    original = torch.Tensor.type
    torch.Tensor.type = lambda self, *arguments, **options: (
        original(self, *arguments, **options) if arguments or options
        else original(self).replace("torch.", "torch.cuda.", 1))


def average_over_gloo(all_reduce):
    """gloo adds up only."""
    def reduce(tensor, op=torch.distributed.ReduceOp.SUM, group=None, async_op=False):
        if op != torch.distributed.ReduceOp.AVG:
            return all_reduce(tensor, op, group, async_op)
        all_reduce(tensor, group=group)
        return tensor.div_(torch.distributed.get_world_size(group))
    return reduce


def start_without_gpu(tp=1, pp=1, rank=0, store=None, dp=1, **sizes):
    """A rank over gloo; the calls of megatron-core that name CUDA are led elsewhere. sizes: others of
    initialize_model_parallel."""
    torch.set_num_threads(1)
    lead_tensors_to_the_cpu()
    torch.Tensor.cuda = lambda self, *arguments, **options: self
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.current_stream = lambda: None
    moe_utils.te_general_gemm = getattr(moe_utils, "te_general_gemm", None)  # a name that is missing without it
    random.CudaRNGStatesTracker.fork = lambda self, *a, **k: contextlib.nullcontext()
    fused_softmax.get_default_causal_mask = \
        lambda size: torch.ones(size, size, dtype=torch.bool).triu(1)
    # megatron-core starts another Python for the queue of its writers, and up to 0.16 a process for each of them,
    # which takes longer than a save: here they are threads, as in newer revisions.
    filesystem_async._results_queue = queue.Queue()
    filesystem_async.mp = types.SimpleNamespace(get_context=lambda method: multiprocessing.dummy)
    torch.distributed.init_process_group("gloo", store=store or torch.distributed.HashStore(),
                                         rank=rank, world_size=tp * pp * dp)
    torch.distributed.all_reduce = average_over_gloo(torch.distributed.all_reduce)
    parallel_state.initialize_model_parallel(tp, pp, **sizes)


class ApexLayerNorm:
    """Apex's kernel, under megatron-core's own FusedLayerNorm: fp32 inside, in any types."""

    @staticmethod
    def forward(context, input, weight, bias, shape, eps, memory_efficient):
        raise NotImplementedError("its arguments are looked at, it is not called")

    @staticmethod
    def apply(input, weight, bias, shape, eps, memory_efficient):
        output = torch.nn.functional.layer_norm(input.float(), shape, weight.float(), bias.float(),
                                                eps)
        return output.to(weight.dtype)


def bias_dropout_add_of_core_0_17(training, fused):
    """Up to 0.16 core rounds an fp32 residual to 16 bits here, so that the flag has no effect."""
    def add(output_with_bias, residual, probability):
        output, bias = (None if part is None else part.to(residual.dtype)
                        for part in output_with_bias)
        return residual + (output if bias is None else output + bias)
    return add


def block_spec(args, config):
    """The local spec; with Apex's layer norm where torch's cannot do what args ask for."""
    if config.moe_layer_freq != 1:
        return get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization=config.normalization)
    layer = get_gpt_layer_local_spec(num_experts=config.num_moe_experts, normalization=config.normalization,
                                     qk_layernorm=config.qk_layernorm)
    if args.fp32_residual_connection:
        layer.submodules.self_attn_bda = bias_dropout_add_of_core_0_17
        layer.submodules.mlp_bda = bias_dropout_add_of_core_0_17
    if not (args.fp32_residual_connection or args.apply_layernorm_1p or config.sequence_parallel):
        return layer
    fused_layer_norm.HAVE_FUSED_LAYER_NORM = True
    fused_layer_norm.FusedLayerNormAffineFunction = ApexLayerNorm
    norm = fused_layer_norm.FusedLayerNorm
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = norm
    return TransformerBlockSubmodules(layer_specs=[layer] * config.num_layers, layer_norm=norm)


# Args that change what a model computes, with Megatron's defaults, for files that lack them.
DEFAULTS = {
    "group_query_attention": False, "use_rotary_position_embeddings": False,
    "normalization": "LayerNorm", "bf16": False, "bias_gelu_fusion": False, "squared_relu": False,
    "quick_geglu": False, "qk_layernorm": False,
    "apply_layernorm_1p": False, "fp32_residual_connection": False, "layernorm_epsilon": 1e-5,
    "add_qkv_bias": False, "apply_query_key_layer_scaling": False, "attention_softmax_in_fp32": True,
    "rotary_percent": 1.0, "rotary_interleaved": False, "rotary_base": 10000, "rotary_seq_len_interpolation_factor": None, "use_rope_scaling": False,
    "rope_scaling_factor": 8.0, "init_method_xavier_uniform": False,
    "calculate_per_token_loss": False, "virtual_pipeline_model_parallel_size": None,
    "decoder_first_pipeline_num_layers": None, "decoder_last_pipeline_num_layers": None,
    "account_for_embedding_in_pipeline_split": False, "account_for_loss_in_pipeline_split": False,
    "pipeline_model_parallel_layout": None, "num_experts": None, "softmax_type": "vanilla"}
# Fields of TransformerConfig and of args alike.
MOE_FIELDS = ("moe_ffn_hidden_size", "moe_router_topk", "moe_router_pre_softmax", "moe_router_topk_scaling_factor",
              "moe_router_score_function", "moe_router_dtype", "moe_router_num_groups", "moe_router_group_topk",
              "moe_router_load_balancing_type", "moe_aux_loss_coeff", "moe_z_loss_coeff",
              "moe_shared_expert_intermediate_size", "moe_shared_expert_gate", "moe_layer_freq",
              "moe_router_enable_expert_bias", "moe_router_bias_update_rate", "moe_expert_capacity_factor",
              "moe_token_drop_policy", "moe_pad_expert_input_to_capacity", "expert_model_parallel_size",
              "expert_tensor_parallel_size", "sequence_parallel")


def activation_of(args):
    if args.swiglu:
        return {"gated_linear_unit": True, "activation_func": torch.nn.functional.silu}
    if args.quick_geglu:
        return {"gated_linear_unit": True, "activation_func": quick_gelu}
    return {"activation_func": squared_relu} if args.squared_relu else {}


def experts_of(args):
    if args.num_experts is None:
        return {}
    if args.add_bias_linear and args.tensor_model_parallel_size == 1:
        # Core adds biases to what this function returns in place, which autograd forbids of its views.
        tensor_parallel.layers.reduce_from_tensor_model_parallel_region = lambda output, **group: output.clone()
    return {"num_moe_experts": args.num_experts, "moe_token_dispatcher_type": "allgather",
            **{name: getattr(args, name) for name in MOE_FIELDS if hasattr(args, name)}}


def initialisation_of(args):
    if not args.init_method_xavier_uniform:
        return {}
    return {"init_method": torch.nn.init.xavier_uniform_,
            "output_layer_init_method": torch.nn.init.xavier_uniform_}


def make_model(saved, pre_process=True, post_process=True, parallel_output=True, vp_stage=None,
               is_fp16=False, **changed):
    """The model that training with these args, some of them changed, would build, or a stage."""
    args = type(saved)(**{**DEFAULTS, **vars(saved), **changed})
    groups = args.num_query_groups if args.group_query_attention else None
    rotary = args.use_rotary_position_embeddings or args.position_embedding_type == "rope"
    dtype = torch.bfloat16 if args.bf16 else torch.float16 if is_fp16 else torch.float32
    config = TransformerConfig(
        num_layers=args.num_layers, hidden_size=args.hidden_size,
        num_attention_heads=args.num_attention_heads, ffn_hidden_size=args.ffn_hidden_size,
        kv_channels=args.kv_channels, num_query_groups=groups, attention_dropout=0.0,
        add_qkv_bias=args.add_qkv_bias, layernorm_epsilon=args.layernorm_epsilon,
        apply_query_key_layer_scaling=args.apply_query_key_layer_scaling,
        attention_softmax_in_fp32=args.attention_softmax_in_fp32,
        rotary_interleaved=args.rotary_interleaved, softmax_type=args.softmax_type,
        hidden_dropout=0.0, use_cpu_initialization=True, add_bias_linear=args.add_bias_linear,
        normalization=args.normalization, bias_activation_fusion=args.bias_gelu_fusion,
        bias_dropout_fusion=False, masked_softmax_fusion=False, apply_rope_fusion=False,
        qk_layernorm=args.qk_layernorm, bf16=args.bf16, fp16=is_fp16,
        params_dtype=dtype, pipeline_dtype=dtype,
        fp32_residual_connection=args.fp32_residual_connection,
        layernorm_zero_centered_gamma=args.apply_layernorm_1p,
        calculate_per_token_loss=args.calculate_per_token_loss,
        tensor_model_parallel_size=args.tensor_model_parallel_size,
        pipeline_model_parallel_size=args.pipeline_model_parallel_size,
        virtual_pipeline_model_parallel_size=args.virtual_pipeline_model_parallel_size,
        num_layers_in_first_pipeline_stage=args.decoder_first_pipeline_num_layers,
        num_layers_in_last_pipeline_stage=args.decoder_last_pipeline_num_layers,
        account_for_embedding_in_pipeline_split=args.account_for_embedding_in_pipeline_split,
        account_for_loss_in_pipeline_split=args.account_for_loss_in_pipeline_split,
        pipeline_model_parallel_layout=args.pipeline_model_parallel_layout,
        **activation_of(args), **experts_of(args), **initialisation_of(args))
    model = GPTModel(
        config, block_spec(args, config), pre_process=pre_process, post_process=post_process,
        parallel_output=parallel_output, vocab_size=args.padded_vocab_size,
        max_sequence_length=args.max_position_embeddings,
        position_embedding_type="rope" if rotary else args.position_embedding_type,
        share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
        rotary_percent=args.rotary_percent, rotary_base=args.rotary_base,
        rope_scaling=args.use_rope_scaling, rope_scaling_factor=args.rope_scaling_factor,
        seq_len_interpolation_factor=args.rotary_seq_len_interpolation_factor, vp_stage=vp_stage)
    return Float16Module(config, model) if args.bf16 or is_fp16 else model


def loss_func(mask, output):
    """As pretrain_gpt.py has it."""
    loss = torch.sum(output.view(-1).float() * mask.view(-1).float())
    tokens = mask.sum().clone().detach().to(torch.int)
    return loss, tokens, torch.cat([loss.clone().detach().view(1), tokens.view(1)])


def save(root, model, args, iteration=1):
    """A checkpoint of one rank without optimizer, as Megatron's --ckpt-format torch lays it out."""
    folder = os.path.join(root, f"iter_{iteration:07d}", "mp_rank_00")
    os.makedirs(folder)
    torch.save({"args": args, "checkpoint_version": 3.0, "iteration": iteration,
                "model": model.state_dict_for_save_checkpoint()},
               os.path.join(folder, "model_optim_rng.pt"))
    with open(os.path.join(root, "latest_checkpointed_iteration.txt"), "w") as tracker:
        tracker.write(str(iteration))
