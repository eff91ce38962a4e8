#!/usr/bin/env python3
"""verify diff and verify manifest between layouts of the real Megatron-LM's checkpoints.

verify_diff_test.py PROGRAM [unittest arguments]
"""
import os
import shutil
import sys
import tempfile
import unittest

try:
    import megatron.core.enums  # the class of a field of args
    import torch

    from reference import cases
    from reference import names as reference_names
    from reference import reshape as reference
    from reference.damaged import DamagedCheckpoint, verify
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = ""


def pairs():
    """(source, what Megatron's own tool made of it)"""
    for case in cases.cases():
        if "__to_" in case:
            yield case[:case.index("__to_")], case


def flat_tensors(state):
    """flat name -> tensor of the model of one rank's state."""
    return {name: tensor for chunk in reference_names.chunks_of(state)
            for name, tensor in chunk.items() if isinstance(tensor, torch.Tensor)}


class Verify(unittest.TestCase):
    def setUp(self):
        if not os.path.isdir(cases.ORACLE):
            self.skipTest(f"not found: {cases.ORACLE}")
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)

    def copy(self, case):
        shutil.rmtree(self.temp.name)
        os.mkdir(self.temp.name)
        return DamagedCheckpoint(case, self.temp.name)

    def run_verify(self, what, *arguments):
        code, answer, errors = verify(PROGRAM, what, *arguments)
        self.assertIsNotNone(answer, errors)
        self.assertEqual(answer["schema"], 1)
        return code, answer

    def diff(self, a, b, *flags):
        code, answer = self.run_verify("diff", a, b, *flags)
        self.assertEqual(code, 0 if answer["equal"] else 1)
        return answer


class Diff(Verify):
    def test_what_megatron_converted_is_equal(self):
        for source, target in pairs():
            for a, b in ((source, target), (target, source)):
                with self.subTest(a=a, b=b):
                    answer = self.diff(cases.path(a), cases.path(b), *cases.shape_flags(a))
                    self.assertTrue(answer["equal"], answer)
                    self.assertGreater(answer["tensors"], 20)

    def test_old_row_orders_hold_the_same_weights(self):
        for case in ("old_v0_tp2", "old_v1_tp2"):
            answer = self.diff(cases.path("gpt_tp2pp2_fp16"), cases.path(case))
            self.assertEqual(answer["differences"], [], case)
            self.assertEqual({field["field"] for field in answer["fields"]}, {"iteration"})

    def test_a_checkpoint_equals_itself_with_its_optimizer(self):
        answer = self.diff(cases.path("gpt_tp2pp2_fp16"), cases.path("gpt_tp2pp2_fp16"))
        self.assertEqual(answer["tensors"], 4 * 52)
        self.assertEqual(answer["notes"], [])

    def test_what_is_no_tensor_of_a_parameter_is_compared(self):
        def rotate(state):
            state["rng_state"][0]["torch_rng_state"][100] ^= 1

        def draw(state):
            version, numbers, gauss = state["rng_state"][0]["random_rng_state"]
            state["rng_state"][0]["random_rng_state"] = (version, (1,) + numbers[1:], gauss)

        for field, flags, change in (
                ("args.layernorm_epsilon", ["--no-optim"],
                 lambda state: setattr(state["args"], "layernorm_epsilon", 1e-6)),
                ("args.apply_residual_connection_post_layernorm", ["--no-optim"],
                 lambda state: setattr(state["args"], "apply_residual_connection_post_layernorm",
                                       True)),
                ("grad_scaler, scale", [],
                 lambda state: state["optimizer"]["grad_scaler"]["scale"].mul_(2)),
                ("rng_state[0].torch_rng_state of mp_rank_01_000", [], rotate),
                ("rng_state[0].random_rng_state of mp_rank_01_000", [], draw)):
            damaged = self.copy("gpt_tp2pp2_fp16")
            damaged.change([2] if "rng" in field else None, change)
            answer = self.diff(cases.path("gpt_tp2pp2_fp16"), damaged.root, *flags)
            self.assertEqual([one["field"] for one in answer["fields"]], [field])
            self.assertEqual(answer["differences"], [])

    def test_numbers_are_compared_by_their_value(self):
        source = cases.path("gpt_tp2pp2_fp16")
        for number, is_equal in ((float, True), (lambda steps: torch.tensor(float(steps)), True),
                                 (lambda steps: steps + 0.5, False), (bool, False)):
            damaged = self.copy("gpt_tp2pp2_fp16")

            def change(state):
                scheduler = state["opt_param_scheduler"]
                scheduler["num_steps"] = number(scheduler["num_steps"])
            damaged.change(None, change)
            answer = self.diff(source, damaged.root)
            self.assertEqual([one["field"] for one in answer["fields"]],
                             [] if is_equal else ["scheduler, num_steps"])

    def test_other_args_may_differ(self):
        damaged = self.copy("gpt_tp2pp2_fp16")
        damaged.change(None, lambda state: setattr(state["args"], "log_interval", 17))
        self.assertTrue(self.diff(cases.path("gpt_tp2pp2_fp16"), damaged.root)["equal"])

    def assert_found_at(self, case, rank, flat_name, place):
        """One element of one shard is changed; diff has to say where that is in the whole."""
        damaged = self.copy(case)
        before = reference.merge(damaged.root, heads=cases.HEADS)

        def change(state):
            with torch.no_grad():
                flat_tensors(state)[flat_name].view(-1)[place] += 0.5
        damaged.change([rank], change)
        after = reference.merge(damaged.root, heads=cases.HEADS)
        expected = [(name, torch.nonzero(after.tensors[name]["weight"] != kinds["weight"]).tolist())
                    for name, kinds in before.tensors.items()
                    if not torch.equal(after.tensors[name]["weight"], kinds["weight"])]
        answer = self.diff(cases.path(case), damaged.root, "--no-optim", *cases.shape_flags(case))
        self.assertEqual([(one["name"], [one["index"]]) for one in answer["differences"]], expected)
        self.assertEqual(answer["differences"][0]["count"], 1)
        return answer["differences"][0]

    def test_differences_are_named_where_they_are_in_the_whole_tensor(self):
        legacy = "language_model.encoder.layers.1."
        for name, place in [("self_attention.query_key_value.weight", 33),
                            ("self_attention.query_key_value.bias", 5),
                            ("self_attention.dense.weight", 50),
                            ("mlp.dense_h_to_4h.weight", 77),
                            ("mlp.dense_4h_to_h.weight", 100)]:
            for rank in (1, 2):
                with self.subTest(name=name, rank=rank):
                    self.assert_found_at("gpt_tp2pp2_fp16", rank, legacy + name, place)
        old = "language_model.transformer.layers.2.attention.query_key_value.weight"
        for case in ("old_v0_tp2", "old_v1_tp2"):
            for place in (3, 700, 1400):
                with self.subTest(case=case, place=place):
                    self.assert_found_at(case, 1, old, place)

    def test_gated_halves_are_told_apart(self):
        case = "mcore_llama_tp2pp1_fp32"
        name = "decoder.layers.3.mlp.linear_fc1.weight"
        elements = flat_tensors(DamagedCheckpoint(case, self.temp.name).load(0))[name].numel()
        for rank in (0, 1):
            for place in (10, elements - 10):
                with self.subTest(rank=rank, place=place):
                    self.assert_found_at(case, rank, name, place)

    def test_layers_count_in_the_whole_model(self):
        damaged = self.copy("gpt_tp1pp3_vpp2_fp16")

        def change(state):
            with torch.no_grad():
                state["model1"]["language_model"]["encoder"]["layers.0.mlp.dense_4h_to_h.bias"][6] = 1
        damaged.change([1], change)
        answer = self.diff(cases.path("gpt_tp1pp3_vpp2_fp16__to_tp1pp1"), damaged.root)
        difference, = answer["differences"]
        self.assertEqual(difference["name"], "decoder.layers.4.mlp.linear_fc2.bias")
        self.assertEqual(difference["index"], [6])
        self.assertEqual(difference["b"], "1")

    def test_moments_and_masters_are_compared(self):
        damaged = self.copy("gpt_tp2pp2_fp16")

        def change(state):
            with torch.no_grad():
                state["optimizer"]["optimizer"]["state"][1]["exp_avg_sq"].view(-1)[3] += 1
        damaged.change([0], change)
        answer = self.diff(cases.path("gpt_tp2pp2_fp16"), damaged.root)
        difference, = answer["differences"]
        self.assertEqual(difference["kind"], "exp_avg_sq")
        self.assertAlmostEqual(difference["max_abs"], 1, places=5)
        self.assertTrue(self.diff(cases.path("gpt_tp2pp2_fp16"), damaged.root,
                                  "--no-optim")["equal"])
        self.assertTrue(self.diff(cases.path("gpt_tp2pp2_fp16"), damaged.root,
                                  "--atol", "1.5")["equal"])

    def test_only_named_parameters(self):
        damaged = self.copy("gpt_tp2pp2_fp16__to_tp1pp1")

        def change(state):
            with torch.no_grad():
                flat_tensors(state)["language_model.encoder.final_layernorm.bias"][0] = 9
        damaged.change([0], change)
        source = cases.path("gpt_tp2pp2_fp16")
        self.assertFalse(self.diff(source, damaged.root)["equal"])
        self.assertTrue(self.diff(source, damaged.root, "--name", "mlp|attention")["equal"])

    def test_padding_rows_are_a_note(self):
        damaged = self.copy("gpt_tp2pp2_fp16")

        def change(state):
            with torch.no_grad():
                for name, tensor in flat_tensors(state).items():
                    if "word_embeddings" in name:
                        tensor[-1] += 1
        damaged.change([2, 3], change)
        source = cases.path("gpt_tp2pp2_fp16")
        answer = self.diff(source, damaged.root, "--no-optim")
        self.assertEqual(answer["differences"][0]["index"], [303, 0])
        answer = self.diff(source, damaged.root, "--no-optim", "--vocab-size", "290")
        self.assertTrue(answer["equal"])
        self.assertTrue(any("padding" in note for note in answer["notes"]), answer["notes"])

    def test_nan_equals_nan_and_nothing_else(self):
        damaged = self.copy("gpt_tp2pp2_fp16__to_tp1pp1")
        name = "language_model.encoder.final_layernorm.bias"

        def change(state):
            with torch.no_grad():
                flat_tensors(state)[name][5] = float("nan")
        damaged.change([0], change)
        self.assertTrue(self.diff(damaged.root, damaged.root)["equal"])
        answer = self.diff(cases.path("gpt_tp2pp2_fp16"), damaged.root, "--atol", "100")
        self.assertEqual(answer["differences"][0]["index"], [5])

    def test_iteration_step_and_shape_are_compared(self):
        damaged = self.copy("gpt_tp2pp2_fp16")

        def change(state):
            state["iteration"] = 5100
            state["opt_param_scheduler"]["num_steps"] += 16
            for group in state["optimizer"]["optimizer"]["param_groups"]:
                group["step"] = 4
        damaged.change(None, change)
        answer = self.diff(cases.path("gpt_tp2pp2_fp16"), damaged.root)
        fields = {field["field"] for field in answer["fields"]}
        self.assertEqual(fields, {"iteration", "scheduler, num_steps",
                                  "param_groups, with weight decay, step",
                                  "param_groups, without weight decay, step"})
        answer = self.diff(cases.path("gpt_tp2pp2_fp16"), cases.path("mcore_llama_tp2pp1_fp32"))
        self.assertTrue(answer["only_in_a"])
        self.assertIn("args.normalization", {field["field"] for field in answer["fields"]})


class Manifest(Verify):
    def write(self, case, *flags):
        damaged = self.copy(case)
        code, _ = self.run_verify("manifest", damaged.root, "--write", *flags)
        self.assertEqual(code, 0)
        return damaged

    def check(self, root, *flags):
        code, answer = self.run_verify("manifest", root, *flags)
        self.assertEqual(code, 0 if answer["ok"] else 1, answer)
        return [(problem["check"], problem["subject"]) for problem in answer["problems"]]

    def test_every_checkpoint_is_what_its_manifest_says(self):
        for case in cases.cases():
            with self.subTest(case):
                flags = cases.shape_flags(case)
                damaged = self.write(case, *flags)
                self.assertEqual(self.check(damaged.root, *flags), [])

    def test_a_manifest_holds_for_every_layout(self):
        for source, target in pairs():
            for a, b in ((source, target), (target, source)):
                for flags in ([], ["--vocab-size", "290"]):
                    if "hf" in a:
                        continue
                    with self.subTest(a=a, b=b, flags=flags):
                        damaged = self.write(a, "--no-optim", *flags)
                        manifest = os.path.join(damaged.iteration, "libmeg-manifest.json")
                        narrowed = "fp32" not in a and b == source and "mcore" not in a
                        problems = self.check(cases.path(b), "--no-optim", "--manifest", manifest)
                        # Megatron's older tools widen: 16-bit digests cannot be had of their files'
                        # counterparts.
                        if narrowed:
                            self.assertTrue(all(what == "changed" for what, _ in problems))
                        else:
                            self.assertEqual(problems, [])

    def test_changed_missing_and_extra_tensors_are_named(self):
        damaged = self.write("gpt_tp2pp2_fp16")

        def change(state):
            with torch.no_grad():
                state["optimizer"]["optimizer"]["state"][1]["exp_avg"].view(-1)[3] += 1
        damaged.change([0], change)
        (what, tensor), = self.check(damaged.root)
        self.assertEqual(what, "changed")
        self.assertTrue(tensor.endswith(" exp_avg"))
        self.assertEqual(self.check(damaged.root, "--no-optim"), [])

        damaged = self.write("gpt_tp2pp2_fp16__to_tp1pp1")
        encoder = "language_model.encoder.final_layernorm.bias"

        def widen(state):
            encoder = state["model"]["language_model"]["encoder"]
            encoder["layers.0.adapter.weight"] = encoder.pop("layers.0.mlp.dense_h_to_4h.bias")
        damaged.change([0], widen)
        rules = os.path.join(self.temp.name, "rules")
        with open(rules, "w") as file:
            file.write(r"language_model\.encoder\.layers\.(\d+)\.adapter\.weight replicated")
        self.assertEqual(sorted(what for what, _ in self.check(damaged.root, "--param-rules", rules)),
                         ["extra", "missing"])

    def test_a_changed_row_is_named_by_its_block(self):
        damaged = self.write("gpt_tp2pp2_fp16__to_tp1pp1")

        def change(state):
            with torch.no_grad():
                model = state["model"]["language_model"]
                model["embedding"]["word_embeddings"]["weight"][42, 1] += 1
        damaged.change([0], change)
        code, answer = self.run_verify("manifest", damaged.root)
        problem, = answer["problems"]
        self.assertIn("rows 40 to 47", problem["expected"])

    def test_a_damaged_file_has_no_manifest(self):
        damaged = self.copy("gpt_tp2pp2_fp16")
        exp_avg = damaged.load(1)["optimizer"]["optimizer"]["state"][5]["exp_avg"]
        damaged.flip(1, damaged.storage_of(1, exp_avg), bit=1)
        done = cases.run(PROGRAM, "manifest", damaged.root, "--write")
        self.assertEqual(done.returncode, 1)
        self.assertIn("CRC-32", done.stderr)
        self.assertFalse(os.path.exists(os.path.join(damaged.iteration, "libmeg-manifest.json")))
        self.assertEqual(cases.run(PROGRAM, "manifest", damaged.root, "--write",
                                   "--no-crc").returncode, 0)

    def test_a_missing_or_broken_manifest_is_an_error(self):
        damaged = self.copy("gpt_tp2pp2_fp16__to_tp1pp1")
        self.assertEqual(cases.run(PROGRAM, "manifest", damaged.root).returncode, 1)
        for text in ("", "{", "[]", "{}", '{"schema":1}',
                     '{"schema":9,"digest":"XXH3-128","tensors":[]}',
                     '{"schema":1,"digest":"XXH3-128","tensors":[{"name":"a"}]}'):
            with open(os.path.join(damaged.iteration, "libmeg-manifest.json"), "w") as file:
                file.write(text)
            done = cases.run(PROGRAM, "manifest", damaged.root)
            self.assertEqual(done.returncode, 1, text)
            self.assertIn("libmeg-manifest.json: ", done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
