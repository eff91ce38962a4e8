#!/usr/bin/env python3
"""verify checkpoint on every checkpoint of the real Megatron-LM, whole and broken in one place.

verify_checkpoint_test.py PROGRAM [unittest arguments]
"""
import os
import shutil
import sys
import tempfile
import unittest
import zipfile

try:
    import megatron.core.enums  # the class of a field of args
    import torch

    from reference import cases
    from reference.damaged import DamagedCheckpoint, layer, model, verify
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = ""
NORM = "layers.0.input_layernorm.weight"
QKV = "layers.1.self_attention.query_key_value.weight"


def optimizer(state):
    return state["optimizer"]["optimizer"]


def masters(state):
    return state["optimizer"]["fp32_from_fp16_params"]


def master_of(state, weight):
    """The fp32 master that belongs to a 16-bit weight."""
    for group in masters(state):
        for master in group:
            if master.shape == weight.shape and torch.equal(master.to(weight.dtype), weight):
                return master
    raise AssertionError("no master")


def drift(state):
    """A norm and its master as one rank might come to hold them."""
    weight = layer(state, NORM)
    master = master_of(state, weight)
    with torch.no_grad():
        master[3] += 0.5
        weight[3] = master[3].to(weight.dtype)


def drift_tied_copy(state):
    weight = state["model"]["word_embeddings_for_head"]["weight"]
    master = master_of(state, weight)
    with torch.no_grad():
        master[7, 5] += 0.5
        weight[7, 5] = master[7, 5].to(weight.dtype)


def set_moment(kind, value):
    def change(state):
        with torch.no_grad():
            optimizer(state)["state"][2][kind].view(-1)[17] = value
    return change


def set_arg(name, value):
    return lambda state: setattr(state["args"], name, value)


def set_top(name, value):
    return lambda state: state.__setitem__(name, value)


def change_weight(state):
    with torch.no_grad():
        layer(state, QKV)[4, 2] += 0.5


def remove_parameter(state):
    del model(state)["encoder"][NORM]


def add_parameter(state):
    model(state)["encoder"]["layers.0.adapter.weight"] = torch.zeros(3)


def remove_layer(state):
    encoder = model(state)["encoder"]
    for name in [name for name in encoder if name.startswith("layers.1.")]:
        del encoder[name]


def cut_shape(state):
    model(state)["encoder"][QKV] = model(state)["encoder"][QKV][:-2].clone()


def remove_state(state):
    del optimizer(state)["state"][3]


def remove_optimizer(state):
    del state["optimizer"]


def other_step(state):
    for group in optimizer(state)["param_groups"]:
        group["step"] = 4


def other_samples(state):
    state["opt_param_scheduler"]["num_steps"] += 16


def remove_rng(state):
    del state["rng_state"]


def remove_generator(state):
    del state["rng_state"][0]["cuda_rng_state"]


def remove_scaler(state):
    del state["optimizer"]["grad_scaler"]


def set_scale(value):
    return lambda state: state["optimizer"]["grad_scaler"]["scale"].fill_(value)


# What is done to which ranks, of which case, and the one check that has to notice.
CHANGES = [
    ("iteration", "gpt_tp2pp2_fp16", [2], set_top("iteration", 4000)),
    ("checkpoint_version", "gpt_tp2pp2_fp16", [1], set_top("checkpoint_version", 2.0)),
    ("args", "gpt_tp2pp2_fp16", [3], set_arg("hidden_dropout", 0.75)),
    ("args", "gpt_tp2pp2_fp16", [1], set_arg("num_attention_heads", 8)),
    ("sizes", "gpt_tp2pp2_fp16", None, set_arg("padded_vocab_size", 312)),
    ("sizes", "gpt_tp2pp2_fp16", None, set_arg("world_size", 6)),
    ("names", "gpt_tp2pp2_fp16__to_tp2pp1", None, set_arg("num_layers", 5)),
    ("names", "gpt_tp2pp2_fp16__to_tp2pp1", [1], remove_parameter),
    ("names", "gpt_tp2pp2_fp16__to_tp2pp1", None, remove_parameter),
    ("names", "gpt_tp2pp2_fp16__to_tp2pp1", None, add_parameter),
    ("names", "gpt_tp2pp2_fp16__to_tp2pp1", None, remove_layer),
    ("shapes", "gpt_tp2pp2_fp16__to_tp2pp1", [1], cut_shape),
    ("shapes", "gpt_tp2pp2_fp16__to_tp2pp1", None, set_arg("ffn_hidden_size", 64)),
    ("replicas", "gpt_tp2pp2_fp16", [2], drift),
    ("tied_embeddings", "gpt_tp2pp2_fp16", [3], drift_tied_copy),
    ("not_finite", "gpt_tp2pp2_fp16", [0], set_moment("exp_avg", float("nan"))),
    ("not_finite", "gpt_tp2pp2_fp16", [0], set_moment("exp_avg_sq", float("inf"))),
    ("masters", "gpt_tp2pp2_fp16", [0], change_weight),
    ("optimizer", "gpt_tp2pp2_fp16", [1], remove_state),
    ("optimizer", "gpt_tp2pp2_fp16", [1], remove_optimizer),
    ("optimizer", "gpt_tp2pp2_fp16", [1], other_step),
    ("optimizer", "gpt_tp2pp2_fp16", [1], other_samples),
    ("random_states", "gpt_tp2pp2_fp16", [1], remove_rng),
    ("random_states", "gpt_tp2pp2_fp16", [0], remove_generator),
    ("loss_scaler", "gpt_tp2pp2_fp16", [2], remove_scaler),
    ("loss_scaler", "gpt_tp2pp2_fp16", None, remove_scaler),
    ("loss_scaler", "gpt_tp2pp2_fp16", [1], set_scale(3.0)),
    ("loss_scaler", "gpt_tp2pp2_fp16", None, set_scale(float("nan"))),
    ("loss_scaler", "gpt_tp2pp2_fp16", None, set_scale(0.0)),
]


class VerifyCheckpoint(unittest.TestCase):
    def setUp(self):
        if not os.path.isdir(cases.ORACLE):
            self.skipTest(f"not found: {cases.ORACLE}")
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)

    def damaged(self, case="gpt_tp2pp2_fp16"):
        shutil.rmtree(self.temp.name)
        os.mkdir(self.temp.name)
        return DamagedCheckpoint(case, self.temp.name)

    def checks(self, path, *flags):
        """The names of the checks that found something; the exit code has to fit."""
        code, answer, errors = verify(PROGRAM, "checkpoint", path, *flags)
        self.assertIsNotNone(answer, errors)
        self.assertEqual(answer["schema"], 1)
        self.assertEqual(answer["ok"], not answer["problems"])
        self.assertEqual(code, 1 if answer["problems"] else 0, errors)
        self.problems = answer["problems"]
        return {problem["check"] for problem in answer["problems"]}

    def test_negative_second_moments_are_noted(self):
        damaged = self.damaged()
        damaged.change([0], set_moment("exp_avg_sq", -1e-9))
        self.assertEqual(self.checks(damaged.root), set(), self.problems)
        _, answer, _ = verify(PROGRAM, "checkpoint", damaged.root)
        self.assertRegex("; ".join(answer["notes"]), r"exp_avg_sq.*expected 0 or more.*found -1e-09.*: 1$")

    def test_every_checkpoint_of_megatron_is_whole(self):
        for case in cases.cases():
            with self.subTest(case):
                self.assertEqual(self.checks(cases.path(case), *cases.shape_flags(case)), set(),
                                 self.problems)

    def test_each_change_is_found_by_its_check(self):
        for check, case, ranks, change in CHANGES:
            with self.subTest(check=check, change=getattr(change, "__name__", "")):
                damaged = self.damaged(case)
                damaged.change(ranks, change)
                self.assertEqual(self.checks(damaged.root), {check}, self.problems)

    def test_places_are_named(self):
        damaged = self.damaged()
        damaged.change([0], set_moment("exp_avg", float("nan")))
        self.checks(damaged.root)
        problem, = self.problems
        self.assertEqual(problem["file"], damaged.file(0))
        self.assertTrue(problem["subject"].endswith(" exp_avg"), problem)
        self.assertEqual(problem["found"], "nan")
        self.assertEqual(problem["count"], 1)
        damaged = self.damaged()
        damaged.change([3], drift_tied_copy)
        self.checks(damaged.root)
        self.assertEqual([problem["index"] for problem in self.problems], [[7, 5]] * 2)

    def test_nan_may_be_allowed(self):
        damaged = self.damaged()
        damaged.change([0], set_moment("exp_avg", float("nan")))
        self.assertEqual(self.checks(damaged.root, "--allow-nan"), set())

    def test_flipped_bits_are_found_unless_crcs_are_left_out(self):
        for tensor in (lambda state: optimizer(state)["state"][5]["exp_avg"],
                       lambda state: layer(state, QKV),
                       lambda state: layer(state, NORM),
                       lambda state: state["rng_state"][0]["torch_rng_state"]):
            damaged = self.damaged()
            entry = damaged.storage_of(1, tensor(damaged.load(1)))
            damaged.flip(1, entry, bit=0x01)
            self.assertEqual(self.checks(damaged.root), {"crc"}, self.problems)
            self.assertEqual(len(self.problems), 1)
        damaged = self.damaged()
        entry = damaged.storage_of(1, optimizer(damaged.load(1))["state"][5]["exp_avg"])
        damaged.flip(1, entry, bit=0x01)
        self.assertEqual(self.checks(damaged.root, "--no-crc"), set())

    def test_a_flipped_bit_of_a_small_entry_is_found(self):
        damaged = self.damaged()
        damaged.flip(2, "/.data/serialization_id", bit=0x01)
        self.assertEqual(self.checks(damaged.root), {"crc"}, self.problems)

    def test_missing_and_strange_rank_files(self):
        damaged = self.damaged()
        os.remove(damaged.file(3))
        self.assertEqual(self.checks(damaged.root), {"rank_files"})
        self.assertIn("mp_rank_01_001", self.problems[0]["file"])
        damaged = self.damaged()
        shutil.rmtree(os.path.dirname(damaged.file(0)))
        self.assertEqual(self.checks(damaged.root), {"rank_files"})
        damaged = self.damaged()
        shutil.copytree(os.path.dirname(damaged.file(0)),
                        os.path.join(damaged.iteration, "mp_rank_02_000"))
        self.assertEqual(self.checks(damaged.root), {"rank_files"})

    def test_sizes_that_no_folder_can_fit_are_reported_in_bounded_space(self):
        damaged = self.damaged("gpt_tp2pp2_fp16__to_tp1pp1")
        damaged.change([0], set_arg("tensor_model_parallel_size", 1 << 20))
        self.assertIn("rank_files", self.checks(damaged.root))
        self.assertLess(len(self.problems), 200)

    def test_a_lost_rank_does_not_hide_what_else_is_wrong(self):
        damaged = self.damaged()
        os.remove(damaged.file(3))
        damaged.change([0], set_moment("exp_avg", float("nan")))
        damaged.change([2], drift)
        self.assertEqual(self.checks(damaged.root), {"rank_files", "not_finite", "replicas"})

    def test_files_cut_short(self):
        for size in (0, 100, 200000):
            damaged = self.damaged()
            os.truncate(damaged.file(1), size)
            self.assertEqual(self.checks(damaged.root), {"file"}, self.problems)
            self.assertEqual(self.problems[0]["file"], damaged.file(1))

    def test_a_storage_cut_short(self):
        damaged = self.damaged("gpt_tp2pp2_fp16__to_tp2pp1")
        path = damaged.file(1)
        with zipfile.ZipFile(path) as archive:
            entries = [(info.filename, archive.read(info)) for info in archive.infolist()]
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in entries:
                archive.writestr(name, content[:-2] if name.endswith("data/4") else content)
        self.assertEqual(self.checks(damaged.root), {"file"}, self.problems)

    def test_the_distributed_optimizers_file_is_asked_for(self):
        for case in ("gpt_tp2pp2_bf16_distopt", "mcore_gpt_tp1pp1_bf16_distopt_dp2"):
            damaged = self.damaged(case)
            path = os.path.join(os.path.dirname(damaged.file(0)), "distrib_optim.pt")
            self.assertEqual(self.checks(damaged.root), set(), self.problems)
            size = os.path.getsize(path)
            for cut in (0, 100, size // 2, size - 1):
                with open(path, "rb") as file:
                    content = file.read()
                os.truncate(path, cut)
                self.assertEqual(self.checks(damaged.root), {"file"}, cut)
                with open(path, "wb") as file:
                    file.write(content)
            with open(path, "r+b") as file:
                file.seek(size // 2)
                file.write(bytes([content[size // 2] ^ 1]))
            self.assertEqual(self.checks(damaged.root), {"crc"})
            os.remove(path)
            self.assertEqual(self.checks(damaged.root), {"distributed_optimizer"})
            self.assertEqual(self.problems[0]["file"], path)
            self.assertEqual(self.checks(damaged.file(0)), set(), self.problems)

    def test_manifests_do_not_claim_a_distributed_optimizer_that_is_not_there(self):
        damaged = self.damaged("gpt_tp1pp1_bf16_distopt_dp2")
        os.remove(os.path.join(os.path.dirname(damaged.file(0)), "distrib_optim.pt"))
        done = cases.run(PROGRAM, "manifest", damaged.root, "--write")
        self.assertEqual(done.returncode, 1)
        self.assertIn("found no such file; --no-optim skips it", done.stderr)
        for flags in (["--write", "--no-optim"], ["--no-optim"]):
            done = cases.run(PROGRAM, "manifest", damaged.root, *flags)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_trackers(self):
        for text in ("9999", "yesterday", ""):
            damaged = self.damaged()
            with open(os.path.join(damaged.root, "latest_checkpointed_iteration.txt"), "w") as file:
                file.write(text)
            self.assertEqual(self.checks(damaged.root), {"tracker"}, self.problems)
            self.assertEqual(self.checks(damaged.root, "--iteration", "5000"), set())

    def test_renamed_folder(self):
        damaged = self.damaged()
        os.rename(damaged.iteration, os.path.join(damaged.root, "iter_0006000"))
        self.assertEqual(self.checks(damaged.root, "--iteration", "6000"), {"iteration"})

    def test_a_vocabulary_larger_than_the_table(self):
        self.assertEqual(self.checks(cases.path("gpt_tp2pp2_fp16"), "--vocab-size", "305"),
                         {"sizes"})

    def test_rules_for_own_layers(self):
        damaged = self.damaged("gpt_tp2pp2_fp16__to_tp2pp1")
        for rank in (0, 1):
            def change(state):
                for number in range(4):
                    model(state)["encoder"][f"layers.{number}.adapter.weight"] = torch.zeros(3)
            damaged.change([rank], change)
        self.assertEqual(self.checks(damaged.root), {"names"})
        rules = os.path.join(self.temp.name, "rules")
        with open(rules, "w") as file:
            file.write(r"language_model\.encoder\.layers\.(\d+)\.adapter\.weight replicated")
        self.assertEqual(self.checks(damaged.root, "--param-rules", rules), set(), self.problems)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
