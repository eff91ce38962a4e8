#!/usr/bin/env python3
"""What the real Megatron-FSDP saves (--ckpt-format fsdp_dtensor) in the other formats and layouts.

A run of the same weights and gradients saves on one process, on several data-parallel and on several
tensor-parallel ones: torch reads each folder's tensors, and checkpoint_util makes the same of them, all one
state. So of megatron-core 0.16.1, which is installed, and of 0.19.2, which scripts/setup.sh unpacks.

fsdp_dtensor_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import json
import os
import pickle
import shutil

from checkpoint_case import NEWER, CheckpointCase, run_tests

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
LLAMA = {"swiglu": True, "add_bias_linear": False, "normalization": "RMSNorm",
         "untie_embeddings_and_output_weights": True, "position_embedding_type": "rope"}

TRAINING = (
    "--num-layers 2 --hidden-size 32 --ffn-hidden-size 80 --num-attention-heads 4 --seq-length 24 "
    "--max-position-embeddings 24 --micro-batch-size 1 --global-batch-size 2 --train-iters 3 --lr 1e-3 --min-lr 0 "
    "--lr-decay-style constant --override-opt_param-scheduler --bf16 --swiglu --disable-bias-linear "
    "--normalization RMSNorm --untie-embeddings-and-output-weights --position-embedding-type rope --use-mcore-models "
    "--tokenizer-type NullTokenizer --vocab-size 90 --make-vocab-size-divisible-by 8 --mock-data --split 100,0,0 "
    "--eval-iters 0")


def tensors_of(folder):
    """{name: {kind: whole tensor}}, as torch puts them together."""
    import torch
    from reference import torch_dist
    found, halves = {}, {}
    for key, tensor in torch_dist.read_tensors(os.path.join(folder, "iter_0000001")).items():
        top, _, name = key.partition(".")
        kind = "weight"
        if key.startswith("optimizer.state."):
            name, _, kind = key.removeprefix("optimizer.state.").rpartition(".")
        if top not in ("model", "optimizer") or kind == "step":
            continue
        while name.startswith("module."):
            name = name.removeprefix("module.")
        if name.endswith(("_w", "_v")):
            halves.setdefault((name[:-2], kind), {})[name[-1]] = tensor
        else:
            found.setdefault(name, {})[kind] = tensor
    for (name, kind), both in halves.items():
        found.setdefault(name, {})[kind] = torch.cat([both["w"], both["v"]])
    return found


class Case(CheckpointCase):
    def save(self, name, tp=1, dp=1, **fields):
        self.run_main("megatron_core.fsdp", self.path(name), tp, dp, fields)
        return self.path(name)

    def expect_equal(self, a, b):
        self.assertIn("equal", self.run_program(self.verify, "diff", a, b).stdout)

    def expect_manifest(self, checkpoint, *others):
        """The manifest of one holds for the others."""
        self.run_program(self.verify, "manifest", checkpoint, "--write")
        manifest = os.path.join(checkpoint, "iter_0000001", "libmeg-manifest.json")
        for other in others:
            self.run_program(self.verify, "manifest", other, "--manifest", manifest)


class Runs(Case):
    def expect_state(self, saved, dtype, *layout):
        """checkpoint_util's rank files hold what torch reads."""
        import torch
        from reference import reshape
        ranks = self.convert(saved, os.path.basename(saved) + "_ranks", *layout)
        found, expected = reshape.merge(ranks).tensors, tensors_of(saved)
        self.assertEqual(set(found), set(expected))
        self.assertGreater(len(expected), 14)
        for name, kinds in expected.items():
            with self.subTest(name=name):
                wanted = {**kinds, "weight": kinds["weight"].to(dtype)}
                if dtype != torch.float32:
                    wanted["fp32_param"] = kinds["weight"]
                self.assertEqual(set(found[name]), set(wanted))
                for kind, tensor in wanted.items():
                    self.assertEqual(found[name][kind].dtype, tensor.dtype)
                    self.assertTrue(torch.equal(found[name][kind], tensor), kind)
        return ranks

    def test_one_state_however_it_is_cut(self):
        import torch
        one = self.save("one")
        ranks = self.expect_state(one, torch.bfloat16)
        self.run_program(self.verify, "checkpoint", one)
        dist = self.convert(one, "dist", "--target-format", "torch_dist")
        cut = [self.save(f"by_{ranks}", 1, ranks) for ranks in (2, 3)]
        for other in (*cut, ranks, dist):
            self.expect_equal(one, other)
        self.expect_manifest(one, *cut, ranks, dist)

    def test_tensor_parallel_ranks_and_gates(self):
        import torch
        saved = self.save("cut", 2, 2, **LLAMA)
        self.expect_state(saved, torch.bfloat16)
        self.expect_state(saved, torch.bfloat16, "--target-tensor-parallel-size", "4",
                          "--target-pipeline-parallel-size", "2")
        self.run_program(self.verify, "checkpoint", saved)
        exported = self.convert(saved, "exported", "--target-format", "huggingface")
        self.assertTrue(os.path.exists(os.path.join(exported, "model.safetensors")))

    def test_runs_in_fp32_have_no_masters(self):
        import torch
        self.expect_state(self.save("plain", bf16=False), torch.float32)

    def test_what_is_no_tensor(self):
        import torch
        saved = self.save("saved", 2)
        for rank in range(2):
            state = torch.load(os.path.join(self.convert(saved, f"ranks{rank}"), "iter_0000001",
                                            f"mp_rank_{rank:02d}", "model_optim_rng.pt"),
                               weights_only=False)
            self.assertEqual(state["iteration"], 1)
            self.assertEqual(state["checkpoint_version"], 3.0)
            self.assertEqual(state["args"].num_layers, 2)
            self.assertEqual(state["opt_param_scheduler"]["lr_decay_steps"], 8)
            self.assertEqual(state["opt_param_scheduler"]["num_steps"], 1)
            generators, = state["rng_state"]
            self.assertEqual(generators["cuda_rng_state"].tolist(), list(range(rank, rank + 16)))
            self.assertEqual(len(generators["random_rng_state"]), 3)
            groups = state["optimizer"]["optimizer"]["param_groups"]
            self.assertEqual(sorted(group["wd_mult"] for group in groups), [0.0, 1.0])
            self.assertEqual({group["lr"] for group in groups}, {1e-3})
            counts = {group["wd_mult"]: len(group["params"]) for group in groups}
            self.assertEqual(counts[1.0], 2 + 2 * 4)
            steps = {float(one["step"]) for one in state["optimizer"]["optimizer"]["state"].values()}
            self.assertEqual(steps, {2.0})


    def test_training_resumes_from_it(self):
        program = os.path.join(os.path.dirname(self.util), "pretrain_gpt")
        if not os.path.exists(program):
            self.skipTest("a build without LibTorch has no pretrain_gpt")
        saved = self.save("saved", dp=2, **LLAMA)
        ends = []
        for load in (saved, self.convert(saved, "ranks")):
            ends.append(load + "_end")
            self.run_program(program, *TRAINING.split(), "--load", load, "--save", ends[-1])
        self.expect_equal(*ends)


class NewerRuns(Runs):
    python_path = (NEWER,)


class Refused(Case):
    def changed(self, change):
        """A copy of the folder, its .metadata changed."""
        from reference import torch_dist
        root = self.path("changed")
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.saved, root)
        folder = os.path.join(root, "iter_0000001")
        metadata = torch_dist.read_metadata(folder)
        change(metadata)
        with open(os.path.join(folder, ".metadata"), "wb") as file:
            pickle.dump(metadata, file)
        return root

    def renamed(self, old, new):
        """new: None drops the items."""
        import dataclasses

        def change(metadata):
            items, places = metadata.state_dict_metadata, metadata.storage_data
            metadata.state_dict_metadata, metadata.storage_data = {}, {}
            for name, item in items.items():
                if old not in name or new is not None:
                    metadata.state_dict_metadata[name.replace(old, new or "")] = item
            for index, place in places.items():
                if old not in index.fqn or new is not None:
                    changed = dataclasses.replace(index, fqn=index.fqn.replace(old, new or ""))
                    metadata.storage_data[changed] = place
        return self.changed(change)

    def test_folders_that_are_not_understood(self):
        self.saved = self.save("saved", **LLAMA)
        gate = "model.module.decoder.layers.1.mlp.linear_fc1.weight_v"
        norm = "param_to_group_meta.module.module.module.decoder.final_layernorm.weight."
        table = "param_to_group_meta.module.module.module.embedding.word_embeddings.weight."
        for old, new, words in (
                (gate, None, ("linear_fc1.weight", "two halves")),
                ("mlp.linear_fc2", "mlp.experts.linear_fc2", ("experts", "not supported")),
                ("optimizer.state.", "optimizer.0.state.", ("chained", "not supported")),
                ("model.module.", "model.", ("torch_dcp", "not supported")),
                ("optimizer.param_to_group_meta.", None, ("param_to_group_meta", "found none")),
                ("opt_param_scheduler.max_lr", "optimizer.max_lr", ("optimizer.max_lr", "alone")),
                ("opt_param_scheduler.max_lr", ".".join("x" * 40), ("at most 32 parts",)),
                (norm, table.replace("embedding.", "decoder.", 1), ("expected a parameter",)),
                ("module.decoder.layers.0.mlp.linear_fc2.weight.exp_avg_sq", None,
                 ("exp_avg_sq", "layers.0.mlp.linear_fc2.weight"))):
            with self.subTest(old=old, new=new):
                error = self.refuse(self.renamed(old, new))
                for word in words:
                    self.assertIn(word, error)

    def test_a_parameter_in_another_group(self):
        import dataclasses
        self.saved = self.save("saved", **LLAMA)
        start = "optimizer.param_to_group_meta.module.module.module."
        one, other = start + "decoder.final_layernorm.weight.", start + "output_layer.weight."

        def swap(metadata):
            swapped = {}
            for index, place in metadata.storage_data.items():
                for a, b in ((one, other), (other, one)):
                    if index.fqn.startswith(a):
                        index = dataclasses.replace(index, fqn=index.fqn.replace(a, b))
                        break
                swapped[index] = place
            metadata.storage_data = swapped
        error = self.refuse(self.changed(swap))
        self.assertIn("expected a group with", error)

    def inspect(self, folder, code=0):
        program = os.path.join(os.path.dirname(self.util), "checkpoint_inspect")
        return json.loads(self.run_program(program, folder, "--json", code=code).stdout)

    def test_the_format_is_named(self):
        self.saved = self.save("saved", **LLAMA)
        self.assertEqual(self.inspect(self.saved)["format"], "fsdp_dtensor")
        experts = self.inspect(self.renamed("mlp.linear_fc2", "mlp.experts.linear_fc2"), code=1)
        self.assertEqual(experts["format"], "fsdp_dtensor")
        self.assertIn("experts", experts["problem"])
        dist = self.convert(self.saved, "dist", "--target-format", "torch_dist")
        self.assertEqual(self.inspect(dist)["format"], "torch_dist")

    def test_weights_alone_whatever_the_optimizer(self):
        self.saved = self.save("saved", **LLAMA)
        whole = self.convert(self.saved, "whole", "--no-optim")
        moment = "module.decoder.layers.0.mlp.linear_fc2.weight.exp_avg_sq"
        for old, new in (("optimizer.state.", "optimizer.0.state."), (moment, None),
                         ("optimizer.param_to_group_meta.", None),
                         ("opt_param_scheduler.max_lr", "optimizer.max_lr")):
            with self.subTest(old=old, new=new):
                changed = self.renamed(old, new)
                self.refuse(changed)
                for flags in (("--no-optim",), ("--target-format", "huggingface")):
                    self.convert(changed, "weights", *flags)
                    self.expect_equal(self.path("weights"), whole)
                    shutil.rmtree(self.path("weights"))

    def test_stages(self):
        self.saved = self.save("saved", pipeline_model_parallel_size=2)
        self.assertIn("pipeline_model_parallel_size 2", self.refuse(self.saved))


if __name__ == "__main__":
    run_tests()
