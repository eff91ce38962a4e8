#!/usr/bin/env python3
"""Mixtures of experts through checkpoint_util and verify: Megatron's and transformers'.

experts_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import os
import re
import shutil
import sys
import tempfile
import unittest
import zipfile

try:
    import torch

    from reference import cases
    from reference import files as reference_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

UTIL = VERIFY = ""
CASE = "mcore_moe_tp1pp1_ep2_bf16"
EXPERTS = 4
LAYERS = 4


def rank_states(root):
    """folder's name -> the file's value."""
    folder = reference_files.iteration_folder(root)
    return {name: reference_files.load_file(os.path.join(folder, name, "model_optim_rng.pt"))
            for name in sorted(os.listdir(folder)) if name.startswith("mp_rank_")}


def split_expert(name):
    """(name with the expert as {}, its number), for both ways to keep experts."""
    found = re.fullmatch(r"(.*\.experts\.local_experts\.)(\d+)(\..*)", name) or \
        re.fullmatch(r"(.*\.experts\.linear_fc\d\.(?:weight|bias))(\d+)()", name)
    if not found:
        return name, None
    sequential = found[1] + "{}" + found[3]
    if not found[3]:
        sequential = re.sub(r"experts\.(linear_fc\d\.\w+)\{\}", r"experts.local_experts.{}.\1",
                            sequential)
    return sequential, int(found[2])


def merged(root, tp, pp, ep):
    """name -> tensor of the whole model, from the format alone."""
    states, parts = rank_states(root), {}
    assert len(states) == tp * pp * ep, sorted(states)
    for t in range(tp):
        for p in range(pp):
            for e in range(ep):
                folder = f"mp_rank_{t:02d}" + (f"_{p:03d}" if pp > 1 else "") + \
                    (f"_{e:03d}" if ep > 1 else "")
                for name, tensor in states[folder]["model"].items():
                    if name.endswith("_extra_state") or (name == "output_layer.weight" and pp > 1):
                        continue
                    name, expert = split_expert(name)
                    name = re.sub(r"layers\.(\d+)\.",
                                  lambda m: f"layers.{int(m[1]) + p * LAYERS // pp}.", name)
                    if expert is not None:
                        name = name.format(expert + e * EXPERTS // ep)
                    parts.setdefault(name, {})[t] = tensor
    result = {}
    for name, by_rank in parts.items():
        shards = [by_rank[t] for t in range(tp)]
        if re.search(r"word_embeddings|linear_qkv|linear_fc1", name) and "layer_norm" not in name:
            result[name] = torch.cat(shards)
        elif re.search(r"linear_proj|linear_fc2", name):
            result[name] = torch.cat(shards, 1)
        else:
            result[name] = shards[0]
    return result


def without_enums(args):
    """Megatron's classes stand for others here, which cannot be saved."""
    for name in ("model_type", "attention_backend"):
        if hasattr(args, name):
            delattr(args, name)


def group_experts(state):
    """As the products of core's GroupedMLP see its matrices."""
    model, parts = state["model"], {}
    for name in list(model):
        found = re.match(r"(.*experts\.)local_experts\.(\d+)\.linear_fc([12])\.weight", name)
        if found:
            parts.setdefault((found[1], found[3]), {})[int(found[2])] = model.pop(name)
        elif "local_experts" in name:
            model.pop(name)
    for (start, number), experts in parts.items():
        whole = torch.stack([experts[k].T for k in range(len(experts))])
        inner, outer = whole.shape[1:]
        model[start + "weight" + number] = whole.reshape(
            (inner, -1) if number == "1" else (-1, outer)).clone()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name="saved"):
        return os.path.join(self.folder, name)

    def convert(self, load, save, *flags):
        done = cases.run(UTIL, "--load-dir", load, "--save-dir", save, *flags)
        self.assertEqual(done.returncode, 0, f"{load} {flags}: {done.stderr}")
        return save

    def refuse(self, load, *flags):
        done = cases.run(UTIL, "--load-dir", load, "--save-dir", self.path(), *flags)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertFalse(os.path.exists(self.path()))
        return done.stderr.strip().splitlines()[-1]

    def assert_same(self, found, expected):
        self.assertEqual(sorted(found), sorted(expected))
        for name, tensor in expected.items():
            self.assertTrue(torch.equal(found[name], tensor), name)

    def copy(self, change=None):
        """The case with each rank's value changed in place."""
        root = self.path("source")
        shutil.copytree(cases.path(CASE), root)
        for name, state in rank_states(root).items():
            without_enums(state["args"])
            state.pop("rerun_state_machine", None)
            if change:
                change(state)
            torch.save(state, os.path.join(reference_files.iteration_folder(root), name,
                                           "model_optim_rng.pt"))
        return root


def layout_flags(tp, pp, ep):
    return ["--target-tensor-parallel-size", str(tp), "--target-pipeline-parallel-size", str(pp),
            "--target-expert-parallel-size", str(ep)]


@cases.needs_oracle
class RankFolders(Case):
    def test_go_to_every_layout_and_back(self):
        whole = merged(cases.path(CASE), 1, 1, 2)
        for layout in ((1, 1, 1), (1, 1, 4), (2, 2, 2), (4, 1, 2), (1, 4, 4)):
            with self.subTest(layout=layout):
                there = self.convert(cases.path(CASE), self.path(f"there{layout}"),
                                     *layout_flags(*layout))
                self.assert_same(merged(there, *layout), whole)
                args = next(iter(rank_states(there).values()))["args"]
                self.assertEqual(args.expert_model_parallel_size, layout[2])
                self.assertEqual(args.expert_tensor_parallel_size, layout[0])
                self.assertEqual(args.data_parallel_size % layout[2], 0)
                done = cases.run(VERIFY, "checkpoint", there)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                back = self.convert(there, self.path(f"back{layout}"), *layout_flags(1, 1, 2))
                theirs = rank_states(cases.path(CASE))
                for folder, state in rank_states(back).items():
                    self.assertEqual(list(state["model"]), list(theirs[folder]["model"]))
                self.assert_same(merged(back, 1, 1, 2), whole)

    def test_grouped_experts_are_the_same_model(self):
        def group(state):
            model = {}
            for name, tensor in state["model"].items():
                name = re.sub(r"input_layernorm\.", "self_attention.linear_qkv.layer_norm_", name)
                grouped = re.sub(r"local_experts\.(\d+)\.(linear_fc\d\.weight)", r"\2\1", name)
                if not name.endswith("_extra_state"):
                    model[grouped] = tensor
            state["model"] = model
            state["args"].transformer_impl = "transformer_engine"
        root = self.copy(group)
        done = cases.run(VERIFY, "diff", cases.path(CASE), root)
        self.assertIn("equal (64 parameters", done.stdout, done.stderr)
        there = self.convert(root, self.path("there"), *layout_flags(2, 1, 4))
        names = [name for name in rank_states(there)["mp_rank_01_003"]["model"] if "experts" in name]
        self.assertIn("decoder.layers.0.mlp.experts.linear_fc1.weight0", names)
        self.assertEqual(len(names), 2 * LAYERS)
        local = self.convert(there, self.path("local"), "--target-names", "mcore",
                             "--saver-transformer-impl", "local", *layout_flags(1, 1, 2))
        self.assert_same(merged(local, 1, 1, 2), merged(cases.path(CASE), 1, 1, 2))

    def test_experts_in_two_matrices_are_taken_apart(self):
        root = self.copy(group_experts)
        for layout in ((1, 1, 2), (2, 2, 4)):
            found = self.convert(root, self.path(str(layout)), *layout_flags(*layout))
            self.assert_same(merged(found, *layout), merged(cases.path(CASE), 1, 1, 2))

    def test_what_cannot_be_done_is_refused_by_name(self):
        self.assertIn("3", self.refuse(cases.path(CASE), *layout_flags(1, 1, 3)))
        for layout, size, word in (((2, 1, 1), "1", "a multiple of tensor_model_parallel_size 2"),
                                   ((1, 1, 2), "2", "files of the same name")):
            self.assertIn(word, self.refuse(cases.path(CASE), *layout_flags(*layout),
                                            "--target-expert-tensor-parallel-size", size))
        self.assertIn("legacy", self.refuse(cases.path(CASE), "--target-names", "legacy"))
        for change, word in (
                (lambda state: setattr(state["args"], "expert_tensor_parallel_size", 2),
                 "expert_tensor_parallel_size 2"),
                (lambda state: setattr(state["args"], "num_experts", 6), "experts"),
                (lambda state: state.update(optimizer=[{}, {}]), "optimizer"),
                (lambda state: (group_experts(state), state["model"].update(
                    {"decoder.layers.0.mlp.experts.weight1": torch.zeros(2, 3)})),
                 "experts.weight1: expected a matrix"),
                (lambda state: state["model"].update(
                    {"decoder.layers.0.mlp.experts.weight1": torch.zeros(2, 2)}),
                 "local_experts.0.linear_fc1.weight as well"),
                (lambda state: (group_experts(state),
                                state.update(optimizer=[{"param_groups": []}, {"param_groups": []}])),
                 "--no-optim"),
                (lambda state: (group_experts(state),
                                state.update(optimizer={"param_groups": [], "state": {}})),
                 "model_optim_rng.pt: optimizer: param_groups")):
            root = self.copy(change)
            with self.subTest(word=word):
                self.assertIn(word, self.refuse(root))
            shutil.rmtree(root)

    def test_missing_expert_ranks_are_named(self):
        root = self.copy()
        shutil.rmtree(os.path.join(reference_files.iteration_folder(root), "mp_rank_00_001"))
        self.assertIn("missing: mp_rank_00_001", self.refuse(root))

    def test_what_expert_ranks_hold_alike_is_compared(self):
        name = "decoder.layers.1.self_attention.linear_qkv.weight"
        for change, words in (
                (lambda model: model[name].view(-1)[3:4].add_(1),
                 ("replicas: " + name + "[0, 3]: expected", "mp_rank_00_000", "load a copy each")),
                (lambda model: model.update({name: model[name][1:].clone()}),
                 ("shapes: " + name, "as in mp_rank_00_000")),
                (lambda model: model.pop(name), ("names: " + name, "no such parameter"))):
            root = self.copy(lambda state: change(state["model"]) if state["args"].rank else None)
            done = cases.run(VERIFY, "checkpoint", root)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(len(done.stdout.splitlines()), 1, done.stdout)
            for word in ("mp_rank_00_001", *words):
                self.assertIn(word, done.stdout)
            if words[0].startswith("replicas"):
                done = cases.run(UTIL, "--load-dir", root, "--save-dir", self.path())
                self.assertIn(f"differ between expert-parallel ranks: 1 ({name} first)", done.stdout)
            shutil.rmtree(root)

    def test_every_file_of_expert_ranks_is_checked(self):
        root = self.copy()
        done = cases.run(VERIFY, "checkpoint", root)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        path = os.path.join(reference_files.iteration_folder(root), "mp_rank_00_001",
                            "model_optim_rng.pt")
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if "/data/" in entry.filename]
            begins = [archive.open(entry)._orig_compress_start for entry in entries]
        with open(path, "rb") as file:
            whole = file.read()
        for entry, begin in list(zip(entries, begins))[::7]:
            changed = bytearray(whole)
            changed[begin + entry.file_size // 2] ^= 1
            with open(path, "wb") as file:
                file.write(changed)
            done = cases.run(VERIFY, "checkpoint", root)
            self.assertEqual(done.returncode, 1, entry.filename)
            self.assertIn("CRC-32", done.stdout, entry.filename)

    def test_expert_ranks_that_were_exchanged_are_refused(self):
        folder = reference_files.iteration_folder(self.copy())
        names = [os.path.join(folder, f"mp_rank_00_00{rank}") for rank in (0, 1)]
        reference_files.exchange(*names)
        self.assertRegex(self.refuse(self.path("source")),
                         "mp_rank_00_001.*expected rank 1 or above.*found 0")


class Transformers(Case):
    def models(self):
        from transformers import (MixtralConfig, MixtralForCausalLM, Qwen2MoeConfig,
                                  Qwen2MoeForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)
        sizes = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48,
                 "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 2,
                 "num_experts_per_tok": 2, "max_position_embeddings": 64}
        torch.manual_seed(1)
        yield "mixtral", MixtralForCausalLM(MixtralConfig(num_local_experts=EXPERTS, **sizes))
        for normalized in (True, False):
            yield f"qwen_{normalized}", Qwen3MoeForCausalLM(Qwen3MoeConfig(
                num_experts=EXPERTS, moe_intermediate_size=24, head_dim=8,
                norm_topk_prob=normalized, **sizes))
        shared = Qwen2MoeForCausalLM(Qwen2MoeConfig(
            num_experts=EXPERTS, moe_intermediate_size=24, shared_expert_intermediate_size=40,
            norm_topk_prob=False, **sizes))
        for name, parameter in shared.named_parameters():
            if name.endswith("bias"):  # zeros would hide where they go
                torch.nn.init.normal_(parameter)
        yield "qwen2_False", shared

    def test_models_come_back_through_every_layout_with_their_logits(self):
        for name, model in self.models():
            with self.subTest(name):
                model = model.float().eval()
                source = self.path(name)
                model.save_pretrained(source)
                ranks = self.convert(source, self.path(name + "_ranks"), *layout_flags(2, 2, 4),
                                     "--make-vocab-size-divisible-by", "1")
                args = next(iter(rank_states(ranks).values()))["args"]
                self.assertEqual(args.num_experts, EXPERTS)
                self.assertEqual(args.moe_router_topk, 2)
                self.assertEqual(args.moe_router_pre_softmax, name.endswith("False"))
                dist = self.convert(ranks, self.path(name + "_dist"),
                                    "--target-format", "torch_dist")
                back = self.convert(dist, self.path(name + "_back"),
                                    "--target-format", "huggingface")
                tokens = torch.arange(40).reshape(2, 20)
                with torch.no_grad():
                    read = type(model).from_pretrained(back, dtype=torch.float32).eval()
                    self.assertTrue(torch.equal(read(tokens).logits, model(tokens).logits))


if __name__ == "__main__":
    UTIL, VERIFY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main()
