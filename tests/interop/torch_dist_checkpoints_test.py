#!/usr/bin/env python3
"""checkpoint_util on torch_dist checkpoints of the real Megatron-LM: what it writes as rank files at
several layouts, beside what torch reads from the folder.

torch_dist_checkpoints_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torch.distributed.checkpoint

    from megatron_core.processes import run_package
    from reference import cases
    from reference import files as reference_files
    from reference import reshape as reference
    from reference import torch_dist as dist
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = VERIFY = ""
NAMED = ["dist_gpt_tp1pp1_fp32_model", "dist_llama_tp2pp2_bf16_model", "dist_gpt_tp2pp1_bf16_opt",
         "dist_gpt_tp2pp1_bf16_distopt_dp2"]
BUFFERS = ["dist_gpt_tp1pp1_bf16_distopt_zero_dp2", "v0161_dist_gpt_tp2pp1_bf16_distopt_dp2"]
LAYOUTS = [(1, 1), (2, 2), (4, 1)]
SOURCES = ["gpt_tp2pp2_fp16", "mcore_gpt_tp2pp2_bf16", "mcore_llama_tp2pp1_fp32"]
# Prints a line of JSON for each folder in its arguments.
MEGATRON_CORE = """
import json, os, sys
import torch
from megatron.core import dist_checkpointing
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
for folder in sys.argv[1:]:
    common = dist_checkpointing.load_common_state_dict(folder)
    tensors = dist_checkpointing.load_plain_tensors(folder)
    print(json.dumps({
        "iteration": common["iteration"],
        "groups": len(common["optimizer"].get("optimizer", common["optimizer"])["param_groups"]),
        "sharding": dist_checkpointing.load_content_metadata(preloaded_state_dict=common).get(
            "distrib_optim_sharding_type"),
        "tensors": {name: [list(tensor.shape), float(tensor.double().sum())]
                    for name, tensor in tensors.items() if isinstance(tensor, torch.Tensor)}}))
"""


def folder_of(case):
    return reference_files.iteration_folder(cases.path(case))


class TorchDist(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()

    def tearDown(self):
        shutil.rmtree(self.folder)

    def convert(self, case, tp, pp, *flags):
        save = os.path.join(self.folder, f"tp{tp}pp{pp}")
        run = cases.reshape(PROGRAM, cases.path(case), save, tp, pp, *flags)
        self.assertEqual(run.returncode, 0, run.stderr)
        return save

    def compare(self, merged, expected, label):
        self.assertEqual(set(merged.tensors), set(expected), label)
        for name, kinds in expected.items():
            self.assertEqual(set(merged.tensors[name]), set(kinds), (label, name))
            for kind, tensor in kinds.items():
                found = merged.tensors[name][kind]
                self.assertEqual(found.dtype, tensor.dtype, (label, name, kind))
                self.assertTrue(torch.equal(found, tensor), (label, name, kind))

    def test_every_tensor_arrives_in_every_layout(self):
        for case in NAMED:
            expected = dist.read(folder_of(case))
            for tp, pp in LAYOUTS:
                with self.subTest(case=case, tp=tp, pp=pp):
                    merged = reference.merge(self.convert(case, tp, pp))
                    self.compare(merged, expected, (case, tp, pp))

    def test_buffers_of_the_distributed_optimizer_become_state_by_name(self):
        for case in BUFFERS:
            with self.subTest(case=case):
                weights, buffers = dist.read(folder_of(case)), dist.rank_buffers(folder_of(case))
                merged = reference.merge(self.convert(case, 1, 1))
                tp = len(buffers["param"])
                for kind, ranks in buffers.items():
                    for rank in range(tp):
                        at = 0
                        for name in dist.reverse_order(weights):
                            state = merged.tensors[name]["fp32_param" if kind == "param" else kind]
                            part = reference.cut(name, state, rank, tp, False).flatten()
                            at = (at + 63) // 64 * 64
                            self.assertTrue(torch.equal(ranks[rank][at:at + part.numel()], part),
                                            (case, kind, rank, name))
                            at += part.numel()
                for name, kinds in weights.items():
                    found = merged.tensors[name]
                    self.assertTrue(torch.equal(found["weight"], kinds["weight"]), name)
                    self.assertTrue(torch.equal(found["fp32_param"].bfloat16(), found["weight"]), name)

    def test_what_is_not_a_tensor_arrives(self):
        case = "dist_gpt_tp2pp1_bf16_opt"
        common = reference_files.load_file(os.path.join(folder_of(case), "common.pt"))
        objects = dist.read_objects(folder_of(case))
        ranks = reference_files.load_ranks(self.convert(case, 2, 1))
        self.assertEqual(len(ranks), 2)
        for (t, _), state in ranks.items():
            for key in ("checkpoint_version", "iteration", "opt_param_scheduler",
                        "num_floating_point_operations_so_far"):
                self.assertEqual(state[key], common[key])
            own = objects[f"rng_state/shard_0.{t}_1.2"][0][0]
            self.assertEqual(state["rng_state"][0]["random_rng_state"], own["random_rng_state"])
            self.assertTrue(torch.equal(state["rng_state"][0]["torch_rng_state"],
                                        own["torch_rng_state"]))
            self.assertIn("sharded", state["rerun_state_machine"])
            self.assertNotIn("content_metadata", state)
            for found, group in zip(state["optimizer"]["optimizer"]["param_groups"],
                                    common["optimizer"]["optimizer"]["param_groups"]):
                self.assertEqual({key: found[key] for key in group if key != "params"},
                                 {key: group[key] for key in group if key != "params"})
                self.assertGreater(len(found["params"]), 0)

    def test_steps_beside_the_tensors_are_those_of_the_groups(self):
        """Up to core 0.14, where torch's Adam steps. Core refuses such a key in rank files."""
        source = shutil.copytree(cases.path("dist_gpt_tp2pp1_bf16_distopt_dp2"), os.path.join(self.folder, "source"))
        path = os.path.join(reference_files.iteration_folder(source), "common.pt")
        os.chmod(path, 0o644)
        common = reference_files.load_file(path)
        common["optimizer"]["param_state"] = {0: {"step": torch.tensor(3.0)}}
        reference_files.save_file(common, path)
        save = os.path.join(self.folder, "saved")
        run = cases.reshape(PROGRAM, source, save, 2, 1)
        self.assertEqual(run.returncode, 0, run.stderr)
        for state in reference_files.load_ranks(save).values():
            self.assertNotIn("param_state", state["optimizer"])
            self.assertEqual([group["step"] for group in state["optimizer"]["optimizer"]["param_groups"]], [3, 3])

    def test_conversion_and_original_verify_and_are_the_same(self):
        for case in ("dist_gpt_tp2pp1_bf16_opt", "dist_gpt_tp2pp1_bf16_distopt_dp2"):
            with self.subTest(case=case):
                save = self.convert(case, 2, 2)
                for path in (save, cases.path(case)):
                    run = subprocess.run([VERIFY, "checkpoint", path],
                                         capture_output=True, text=True)
                    self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                run = subprocess.run([VERIFY, "diff", save, cases.path(case)], capture_output=True,
                                     text=True)
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


def with_masters(merged):
    """Kinds by their names in a fully reshardable optimizer: fp32 weights are their own masters."""
    found = {}
    for name, kinds in merged.tensors.items():
        found[name] = dict(kinds)
        if len(kinds) > 1 and "fp32_param" not in kinds:
            found[name]["fp32_param"] = kinds["weight"]
    return found


class Written(unittest.TestCase):
    """--target-format torch_dist, read by torch and by the real megatron-core."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()

    def tearDown(self):
        shutil.rmtree(self.folder)

    def write(self, case):
        save = os.path.join(self.folder, case)
        run = cases.run(PROGRAM, "--model-type", "GPT", "--load-dir", cases.path(case),
                        "--save-dir", save, "--target-format", "torch_dist")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("in torch_dist format", run.stdout)
        return save

    def test_torch_reads_the_same_tensors(self):
        for case in SOURCES:
            with self.subTest(case=case):
                expected = with_masters(reference.merge(cases.path(case)))
                found = dist.read(reference_files.iteration_folder(self.write(case)))
                self.assertEqual(set(found), set(expected))
                for name, kinds in expected.items():
                    self.assertEqual(set(found[name]), set(kinds), name)
                    for kind, tensor in kinds.items():
                        self.assertTrue(torch.equal(found[name][kind], tensor), (name, kind))

    def test_the_way_back_gives_the_same_checkpoint(self):
        for case in SOURCES:
            with self.subTest(case=case):
                written = self.write(case)
                back = os.path.join(self.folder, "back")
                run = cases.reshape(PROGRAM, written, back, 2, 2)
                self.assertEqual(run.returncode, 0, run.stderr)
                direct, merged = reference.merge(cases.path(case)), reference.merge(back)
                self.assertEqual(set(direct.tensors), set(merged.tensors))
                for name, kinds in direct.tensors.items():
                    for kind, tensor in kinds.items():
                        self.assertTrue(torch.equal(merged.tensors[name][kind], tensor),
                                        (name, kind))

    def test_megatron_core_loads_it(self):
        folder = reference_files.iteration_folder(self.write("mcore_gpt_tp2pp2_bf16"))
        run = run_package([sys.executable, "-c", MEGATRON_CORE, folder])
        if "ImportError" in run.stderr or "ModuleNotFoundError" in run.stderr:
            self.skipTest("megatron-core is not there")
        self.assertEqual(run.returncode, 0, run.stderr[-3000:])
        answer = json.loads(run.stdout.splitlines()[-1])
        self.assertEqual(answer["sharding"], "fully_reshardable")
        self.assertEqual(answer["iteration"], 200)
        self.assertEqual(answer["groups"], 2)
        tensors = dist.read_tensors(folder)
        self.assertEqual(answer["tensors"], {name: [list(tensor.shape), float(tensor.double().sum())]
                                             for name, tensor in tensors.items()})

    def test_layouts_are_refused_beside_it(self):
        run = cases.reshape(PROGRAM, cases.path(SOURCES[0]), self.folder + "/none", 1, 1,
                            "--target-format", "torch_dist")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("--target-format torch_dist", run.stderr)


class Shifted(TorchDist):
    """State that megatron-core saved shifted, and the same run's rank files."""

    CASE, TWIN = "core_shift_fp32_tied_pp3_fully_reshardable", "core_shift_fp32_tied_pp3_ranks"

    def setUp(self):
        super().setUp()
        if not os.path.isdir(cases.path(self.CASE)):
            self.skipTest("not found: " + cases.path(self.CASE))

    def test_state_of_fp32_weights_that_is_not_theirs_is_refused(self):
        words = (r"optimizer\.state\.param\.\S+: expected the model's fp32 weights, found different "
                 ".*fully_reshardable.*--no-optim")
        save = os.path.join(self.folder, "none")
        for command in ([PROGRAM, "--load-dir", cases.path(self.CASE), "--save-dir", save],
                        [PROGRAM, "--load-dir", cases.path(self.CASE), "--save-dir", save,
                         "--target-format", "torch_dist"],
                        [VERIFY, "checkpoint", cases.path(self.CASE)],
                        [VERIFY, "diff", cases.path(self.CASE), cases.path(self.TWIN)],
                        [VERIFY, "manifest", cases.path(self.CASE), "--write", "--manifest", save]):
            run = cases.run(*command)
            self.assertEqual(run.returncode, 1, command)
            self.assertRegex(run.stderr, words)
            self.assertFalse(os.path.exists(save))

    def test_its_weights_are_those_of_the_rank_files(self):
        save = self.convert(self.CASE, 1, 1, "--no-optim")
        run = cases.run(VERIFY, "diff", save, cases.path(self.TWIN), "--no-optim")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


class Damaged(unittest.TestCase):
    """Nothing is written, one line says why."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.root = os.path.join(self.folder, "source")
        shutil.copytree(cases.path("dist_gpt_tp2pp1_bf16_opt"), self.root)
        self.iteration = reference_files.iteration_folder(self.root)
        for name in os.listdir(self.iteration):
            os.chmod(os.path.join(self.iteration, name), 0o644)
        os.chmod(self.iteration, 0o755)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def path(self, name):
        return os.path.join(self.iteration, name)

    def refuse(self, *words):
        save = os.path.join(self.folder, "save")
        run = cases.reshape(PROGRAM, self.root, save, 1, 1)
        self.assertEqual(run.returncode, 1, run.stdout)
        last = run.stderr.strip().splitlines()[-1]
        for word in words:
            self.assertIn(word, last)
        self.assertFalse(os.path.exists(save) and os.listdir(save))

    def edit(self, name, old, new):
        with open(self.path(name), "rb") as file:
            content = file.read()
        self.assertIn(old, content)
        with open(self.path(name), "wb") as file:
            file.write(content.replace(old, new))

    def test_a_missing_file(self):
        os.remove(self.path("__1_0.distcp"))
        self.refuse("__1_0.distcp")

    def test_a_file_cut_short(self):
        os.truncate(self.path("__1_1.distcp"), 100000)
        self.refuse("__1_1.distcp", "100000 in all")

    def test_a_file_outside_the_folder(self):
        self.edit(".metadata", b"__0_0.distcp", b"../_0.distcp")
        self.refuse(".metadata", "below the folder")

    def expect_weights(self):
        """What is wrong with the optimizer alone hinders nobody who leaves it out."""
        expected = {name: kinds["weight"] for name, kinds in
                    dist.read(folder_of("dist_gpt_tp2pp1_bf16_opt")).items()}
        save = os.path.join(self.folder, "weights")
        run = cases.reshape(PROGRAM, self.root, save, 1, 1, "--no-optim")
        self.assertEqual(run.returncode, 0, run.stderr)
        for state in reference_files.load_ranks(save).values():
            self.assertNotIn("optimizer", state)
        found = reference.merge(save).tensors
        self.assertEqual(set(found), set(expected))
        for name, tensor in expected.items():
            self.assertEqual(list(found[name]), ["weight"], name)
            self.assertTrue(torch.equal(found[name]["weight"], tensor), name)

    def test_an_optimizer_that_does_not_cover_the_model(self):
        old = b"optimizer.state.exp_avg_sq.decoder.final_layernorm.bias"
        self.edit(".metadata", old, old.replace(b"exp_avg_sq", b"exp_avg_sx"))
        self.refuse("optimizer", "exp_avg_s")
        self.expect_weights()

    def test_state_of_no_parameter(self):
        old = b"optimizer.state.exp_avg.decoder.final_layernorm.bias"
        self.edit(".metadata", old, old.replace(b"bias", b"bios"))
        self.refuse("final_layernorm.bios")
        self.expect_weights()

    def test_optimizers_that_are_chained_otherwise(self):
        common = reference_files.load_file(self.path("common.pt"))
        common["optimizer"] = {number: common["optimizer"] for number in range(3)}
        reference_files.save_file(common, self.path("common.pt"))
        self.refuse("optimizer: found 3 chained optimizers", "--no-optim")
        self.expect_weights()

    def test_an_optimizer_without_settings(self):
        common = reference_files.load_file(self.path("common.pt"))
        del common["optimizer"]
        reference_files.save_file(common, self.path("common.pt"))
        self.refuse('optimizer: expected its settings in common.pt, found only "optimizer.state.', "--no-optim")
        self.expect_weights()

    def test_two_dialects_in_one_folder(self):
        other = reference_files.iteration_folder(cases.path("mcore_gpt_tp1pp1_fp32"))
        shutil.copytree(os.path.join(other, "mp_rank_00"), self.path("mp_rank_00"))
        self.refuse("mp_rank", "torch_dist")

    def test_formats_of_torch_alone_are_named(self):
        state = {"model": {"decoder.final_layernorm.weight": torch.ones(4)}, "iteration": 1}
        shutil.rmtree(self.iteration)
        torch.distributed.checkpoint.save(state, checkpoint_id=self.iteration, no_dist=True)
        self.refuse("model.decoder.final_layernorm.weight", "torch_dcp")
        with open(self.path("metadata.json"), "w") as file:
            json.dump({"sharded_backend": "fsdp_dtensor", "sharded_backend_version": 1}, file)
        self.refuse("metadata.json: sharded_backend: expected torch_dist", "fsdp_dtensor")

    def test_damaged_settings(self):
        self.edit("common.pt", struct.pack(">d", 0.01), struct.pack(">d", 0.02))
        self.refuse("common.pt", "data.pkl", "CRC-32")

    def test_a_damaged_object(self):
        name = next(place.relative_path for index, place in dist.read_metadata(self.iteration).storage_data.items()
                    if index.fqn.startswith("rng_state/"))
        self.edit(name, b"random_rng_state", b"random_rng_stata")
        self.refuse(name, "rng_state", "data.pkl", "CRC-32")

    def test_damaged_elements(self):
        metadata = dist.read_metadata(self.iteration)
        index, place = next((index, place) for index, place in metadata.storage_data.items()
                            if index.fqn == "decoder.layers.mlp.linear_fc1.weight")
        with open(self.path(place.relative_path), "r+b") as file:
            file.seek(place.offset + place.length // 2)
            byte = file.read(1)
            file.seek(place.offset + place.length // 2)
            file.write(bytes([byte[0] ^ 1]))
        self.refuse("CRC-32")


if __name__ == "__main__":
    if not os.path.isdir(cases.path("dist_gpt_tp2pp1_bf16_opt")):
        print("skipped: not found: " + cases.path("dist_gpt_tp2pp1_bf16_opt"))
        sys.exit(77)
    PROGRAM, VERIFY = sys.argv[1], sys.argv[2]
    del sys.argv[1:3]
    unittest.main()
