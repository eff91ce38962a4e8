"""Mixtures of experts that the real megatron-core (PyPI) trains and saves in several processes.

The weights, gradients and steps are the same however layers, tensors and experts are shared out.

main("save", FIELDS, [(FORM, FOLDER) ...])  makes checkpoints of iteration 1
main("flatten", {}, [(SAVED, FOLDER) ...])    the same states in an older form: see flatten_rank()
main("load", FIELDS, [(FORM, FOLDER) ...])  loads folders of iterations: all give the same
FORM: "plain", "plain_prefixed" (names as older revisions chain them) or a sharding type of the
distributed optimizer, all as torch_dist, or rank folders: "plain_ranks", "distributed_ranks".
FIELDS: args that differ from args_of()'s.
"""
import os
import re
import tempfile

import torch
import torch.distributed.checkpoint as dcp
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing import ShardedTensor
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import (get_gpt_decoder_block_spec,
                                                      get_gpt_layer_local_spec)
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.transformer_config import TransformerConfig

from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from megatron_core import models as core
from megatron_core.ranks import model_args, run_ranks, values, write_tracker

EXPERTS = 4
# Fields of TransformerConfig and of Megatron's args alike.
ROUTER_FIELDS = ("moe_shared_expert_intermediate_size", "moe_shared_expert_gate",
                 "moe_router_enable_expert_bias", "moe_router_score_function", "moe_layer_freq")


def args_of(tp=1, pp=1, ep=1, dp=None, etp=None, bf16=True, bucket_size=None, **changes):
    dp = dp or ep
    return model_args(
        tp, pp, num_experts=EXPERTS, moe_router_topk=2, expert_model_parallel_size=ep, bf16=bf16,
        expert_tensor_parallel_size=etp or tp, world_size=tp * pp * dp, data_parallel_size=dp,
        context_parallel_size=1, overlap_grad_reduce=bucket_size is not None,
        ddp_bucket_size=bucket_size, ckpt_fully_parallel_save=True,
        cross_entropy_loss_fusion=False, accumulate_allreduce_grads_in_fp32=True,
        **({"add_bias_linear": False, "moe_ffn_hidden_size": 48, "moe_grouped_gemm": False} | changes))


def make_model(args, stage):
    dtype = torch.bfloat16 if args.bf16 else torch.float32
    tp, pp = args.tensor_model_parallel_size, args.pipeline_model_parallel_size
    config = TransformerConfig(
        num_layers=args.num_layers, hidden_size=args.hidden_size,
        num_attention_heads=args.num_attention_heads, ffn_hidden_size=args.ffn_hidden_size,
        moe_ffn_hidden_size=args.moe_ffn_hidden_size, num_moe_experts=EXPERTS, moe_router_topk=2,
        expert_model_parallel_size=args.expert_model_parallel_size,
        expert_tensor_parallel_size=args.expert_tensor_parallel_size,
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
        use_cpu_initialization=True, bf16=args.bf16, params_dtype=dtype, pipeline_dtype=dtype,
        add_bias_linear=args.add_bias_linear, gated_linear_unit=args.swiglu,
        activation_func=torch.nn.functional.silu if args.swiglu else torch.nn.functional.gelu,
        hidden_dropout=0.0, attention_dropout=0.0,
        bias_dropout_fusion=False, moe_token_dispatcher_type="alltoall",
        **{name: getattr(args, name) for name in ROUTER_FIELDS if hasattr(args, name)})
    # Layers that differ have a spec each.
    spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False) \
        if hasattr(args, "moe_layer_freq") else \
        get_gpt_layer_local_spec(num_experts=EXPERTS, moe_grouped_gemm=args.moe_grouped_gemm,
                                 **({"moe_use_legacy_grouped_gemm": True} if args.moe_grouped_gemm else {}))
    model = GPTModel(
        config, spec, vocab_size=args.padded_vocab_size, max_sequence_length=args.max_position_embeddings,
        pre_process=stage == 0, post_process=stage == pp - 1,
        share_embeddings_and_output_weights=True)
    return Float16Module(config, model) if args.bf16 else model


def whole_name(name, args, stage, expert_rank):
    """Of the whole model: the same however its layers and experts are shared out."""
    layers = args.num_layers // args.pipeline_model_parallel_size
    share = EXPERTS // args.expert_model_parallel_size
    name = re.sub(r"layers\.(\d+)\.", lambda m: f"layers.{int(m[1]) + stage * layers}.", name)
    name = re.sub(r"experts\.(\d+)\.", lambda m: f"experts.{int(m[1]) + expert_rank * share}.", name)
    return "word embeddings" if re.search(r"word_embeddings|output_layer", name) else name


def start(folder, rank, args):
    tp, pp = args.tensor_model_parallel_size, args.pipeline_model_parallel_size
    store = torch.distributed.FileStore(os.path.join(folder, "store"), args.world_size)
    core.start_without_gpu(tp, pp, rank, store, dp=args.data_parallel_size,
                           expert_model_parallel_size=args.expert_model_parallel_size,
                           expert_tensor_parallel_size=args.expert_tensor_parallel_size)
    core.call_types_cuda()
    if args.moe_grouped_gemm:
        # This is a check of GroupedMLP, which newer revisions do not have; its products are not called here.
        from megatron.core.transformer.moe import grouped_gemm_util
        grouped_gemm_util.assert_grouped_gemm_is_available = lambda: None
    torch.cuda.synchronize = lambda *device: None
    torch.cuda.Stream = lambda *arguments, **options: None


def place():
    return (parallel_state.get_tensor_model_parallel_rank(),
            parallel_state.get_pipeline_model_parallel_rank(),
            parallel_state.get_expert_model_parallel_rank())


def train(args, distributed, steps=range(2)):
    """This rank's model with its optimizer after some steps."""
    tensor_rank, stage, expert_rank = place()
    model = make_model(args, stage)

    def of_whole(name, parameter, what, scale):
        is_cut = getattr(parameter, "tensor_model_parallel", False) or (
            "experts" in name and not name.endswith(("linear_fc2.bias", "gate_weight")))
        key = whole_name(name, args, stage, expert_rank)
        if re.search(r"experts\.weight\d$", name):  # those of all of the rank's experts
            key += f" {expert_rank}"
        rank = parallel_state.get_expert_tensor_parallel_rank() \
            if re.search(r"\.experts\.", name) else tensor_rank
        return values(f"{key} {what}", rank if is_cut else 0, parameter.shape, scale)

    for name, parameter in model.named_parameters():
        parameter.data.copy_(of_whole(name, parameter, "", 0.1))
    for name, buffer in model.named_buffers():
        if name.endswith("expert_bias"):
            buffer.copy_(values(whole_name(name, args, stage, 0), 0, buffer.shape, 0.1))
    wrapped = DistributedDataParallel(model.config, DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, use_distributed_optimizer=distributed,
        overlap_grad_reduce=args.overlap_grad_reduce,
        bucket_size=getattr(args, "ddp_bucket_size", None)), model)
    optimizer = get_megatron_optimizer(OptimizerConfig(
        optimizer="adam", lr=1e-3, min_lr=1e-4, weight_decay=0.1, bf16=args.bf16, fp16=False,
        params_dtype=torch.bfloat16 if args.bf16 else torch.float32, clip_grad=0.0,
        use_distributed_optimizer=distributed), [wrapped])
    for step in steps:
        for name, parameter in model.named_parameters():
            parameter.main_grad.copy_(of_whole(name, parameter, step, 1.0))
        optimizer.step()
    return model, optimizer


def sharded_state(model, optimizer, args, form, is_loading):
    """What Megatron-LM's trainer hands to dist_checkpointing, and what it says of it."""
    metadata = {"singleton_local_shards": False,
                "chained_optim_avoid_prefix": form != "plain_prefixed"}
    if not form.startswith("plain"):
        metadata["distrib_optim_sharding_type"] = form
    group = parallel_state.get_data_parallel_group(with_context_parallel=True)
    of_model = model.sharded_state_dict(metadata=metadata | {"dp_cp_group": group})
    return {"model": of_model, "iteration": 1, "checkpoint_version": 3.0, "args": args,
            "optimizer": optimizer.sharded_state_dict(
                of_model, is_loading=is_loading, metadata=metadata | {"dp_cp_group": group})}, metadata


def save_rank_file(folder, model, optimizer, args, distributed):
    tensor_rank, stage, expert_rank = place()
    name = f"mp_rank_{tensor_rank:02d}" + \
        (f"_{stage:03d}" if args.pipeline_model_parallel_size > 1 else "") + \
        (f"_{expert_rank:03d}" if args.expert_model_parallel_size > 1 else "")
    path = os.path.join(folder, "iter_0000001", name)
    os.makedirs(path, exist_ok=True)
    if distributed:
        optimizer.save_parameter_state(os.path.join(path, "distrib_optim.pt"))
    if parallel_state.get_expert_data_parallel_rank() == 0:
        torch.save({"args": args, "checkpoint_version": 3.0, "iteration": 1,
                    "model": model.state_dict_for_save_checkpoint(),
                    "optimizer": optimizer.state_dict()},
                   os.path.join(path, "model_optim_rng.pt"))


def save_form(folder, form, model, optimizer, args):
    if form.endswith("_ranks"):
        return save_rank_file(folder, model, optimizer, args, args.use_distributed_optimizer)
    state, metadata = sharded_state(model, optimizer, args, form, False)
    path = os.path.join(folder, "iter_0000001")
    os.makedirs(path, exist_ok=True)
    torch.distributed.barrier()
    dist_checkpointing.save(state, path, content_metadata=metadata)


def save_rank(folder, rank, args, places):
    """Each kind of optimizer trains once for all of its forms."""
    start(folder, rank, args)
    for distributed in (False, True):
        forms = [place for place in places if place[0].startswith("plain") != distributed]
        if forms:
            args.use_distributed_optimizer = distributed
            model, optimizer = train(args, distributed)
            for form, root in forms:
                save_form(root, form, model, optimizer, args)


def save(args, places):
    """A checkpoint for each form and folder."""
    with tempfile.TemporaryDirectory() as folder:
        run_ranks(folder, args.world_size, save_rank, args, places)
    for _, root in places:
        write_tracker(root)


def load_rank(folder, rank, args, form, checkpoints):
    from reference.same import expect_same
    start(folder, rank, args)
    model, optimizer = train(args, not form.startswith("plain"), steps=[7])
    loaded = []
    for checkpoint in checkpoints:
        state, metadata = sharded_state(model, optimizer, args, form, True)
        loaded.append(dist_checkpointing.load(state, checkpoint))
    for state in loaded[1:]:
        for part in ("model", "optimizer"):
            expect_same(state[part], loaded[0][part], part)


def flatten_rank(folder, rank, source):
    """States of GroupedMLP as core to 0.15 saved them in the form fully_sharded_model_space: each
    expert's matrix as the products take it, flattened, and of a gated one the gate and what it gates
    apart."""
    start(folder, rank, args_of())
    items = dcp.FileSystemReader(source).read_metadata().state_dict_metadata
    state = {name: torch.empty(item.size, dtype=item.properties.dtype) for name, item in items.items()
             if isinstance(item, TensorStorageMetadata)}
    dcp.load(state, checkpoint_id=source, no_dist=True)
    sharded = torch.load(os.path.join(source, "common.pt"), weights_only=False)
    for name, tensor in state.items():
        if "optimizer.state." not in name or ".mlp.experts." not in name:
            sharded[name] = ShardedTensor.from_rank_offsets(name, tensor)
            continue
        turned = tensor.transpose(-1, -2)  # layers, experts, inputs, outputs
        parts = turned.chunk(2, -1) if "linear_fc1" in name else (turned,)
        for layer in range(len(tensor)):
            for expert in range(EXPERTS):
                for number, part in enumerate(parts):
                    sharded[f"{name} {layer} {expert} {number}"] = ShardedTensor.from_rank_offsets(
                        name, part[layer, expert].flatten(), (0, layer, len(tensor)),
                        (1, expert, EXPERTS), (3, number, len(parts)), prepend_axis_num=4)
    path = os.path.join(folder, "iter_0000001")
    os.makedirs(path)
    dist_checkpointing.save(sharded, path)


def main(command, fields, places):
    """places: of a form and a folder each; those to load have one form."""
    if command == "flatten":
        for source, folder in places:
            run_ranks(folder, 1, flatten_rank, os.path.join(source, "iter_0000001"))
        return
    if command == "save":
        save(args_of(**fields), places)
        return
    args = args_of(**fields)
    forms, checkpoints = zip(*places)
    form, = set(forms)
    with tempfile.TemporaryDirectory() as folder:
        run_ranks(os.path.join(folder, "ranks"), args.world_size, load_rank, args, form, checkpoints)
