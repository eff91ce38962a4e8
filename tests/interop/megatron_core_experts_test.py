#!/usr/bin/env python3
"""Training states of mixtures of experts, in all forms in which the real megatron-core saves them.

The same run saves its optimizers, those of experts chained after the others, in each form: all of
them are one state. What checkpoint_util makes of it, megatron-core loads as what it saved itself.
So of 0.16.1, which is installed, and of 0.19.2, which scripts/setup.sh unpacks for this test.

megatron_core_experts_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import os
import shutil

from checkpoint_case import NEWER, CheckpointCase, run_tests

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
FORMS = ("plain", "plain_prefixed", "fully_reshardable", "dp_reshardable", "dp_zero_gather_scatter")


def names_of(root):
    """The rank folders."""
    return sorted(os.listdir(os.path.join(root, "iter_0000001")))


class Case(CheckpointCase):
    def save(self, fields, **forms):
        """Folders of these names."""
        saved = {name: self.path(name) for name in forms}
        self.run_main("megatron_core.experts", "save", fields,
                      [(form, saved[name]) for name, form in forms.items()])
        return saved.values()

    def expect_equal(self, *checkpoints):
        for other in checkpoints[1:]:
            self.assertIn("equal", self.run_program(self.verify, "diff", checkpoints[0], other).stdout)
        self.run_program(self.verify, "checkpoint", checkpoints[-1])

    def expect_same_files(self, found, expected, files=("distrib_optim.pt", "model_optim_rng.pt")):
        """Of rank folders: every value of these files, wherever padding has no say."""
        import torch

        from reference.same import expect_same
        self.assertEqual(names_of(found), names_of(expected))
        for name in names_of(expected):
            for file in files:
                ours, theirs = (torch.load(os.path.join(root, "iter_0000001", name, file),
                                           weights_only=False) for root in (found, expected))
                if file.startswith("model"):
                    ours, theirs = ({part: state[part] for part in ("model", "optimizer")}
                                    for state in (ours, theirs))
                expect_same(ours, theirs, f"{name} {file}")

    def expect_loads(self, form, fields, *roots):
        self.run_main("megatron_core.experts", "load", fields,
                      [(form, os.path.join(root, "iter_0000001")) for root in roots])


class EveryForm(Case):
    def test_every_form_is_one_state(self):
        fields = {"ep": 2, "dp": 2}
        *folders, ranks = self.save(fields, **{form: form for form in FORMS}, ranks="distributed_ranks")
        saved = dict(zip(FORMS, folders))
        self.expect_equal(*folders)
        self.expect_equal(saved["plain"], ranks)
        for form, kind in (("plain", "plain"), ("fully_reshardable", "distributed")):
            ours = self.convert(saved[form], f"ours_{form}", "--target-format", "torch_dist",
                                "--target-optimizer", kind)
            self.expect_equal(saved[form], ours)
            self.expect_loads(form, fields, saved[form], ours)
        upgraded = self.convert(saved["dp_reshardable"], "upgraded", "--target-format", "torch_dist")
        self.expect_loads("fully_reshardable", fields, saved["fully_reshardable"], upgraded)


class OtherLayouts(Case):
    def test_buffers_of_experts_go_to_every_layout(self):
        two, = self.save({"ep": 2, "dp": 2}, two="distributed_ranks")
        four, own = self.save({"ep": 4, "dp": 4}, four="distributed_ranks", own="fully_reshardable")
        self.expect_same_files(self.convert(two, "kept"), two)
        there = self.convert(two, "there", "--target-expert-parallel-size", "4")
        self.expect_same_files(there, four)
        staged = self.convert(two, "staged", "--target-expert-parallel-size", "1",
                              "--target-tensor-parallel-size", "2",
                              "--target-pipeline-parallel-size", "2")
        self.expect_equal(two, staged)
        self.expect_same_files(
            self.convert(staged, "back", "--target-expert-parallel-size", "2",
                         "--target-tensor-parallel-size", "1", "--target-pipeline-parallel-size",
                         "1", "--target-data-parallel-size", "2"), two)
        # What runs of other sizes chain, they find in torch_dist.
        spread = self.convert(two, "spread", "--target-format", "torch_dist",
                              "--target-expert-parallel-size", "4")
        self.expect_loads("fully_reshardable", {"ep": 4, "dp": 4}, own, spread)

    def test_stages_tensor_ranks_and_buckets(self):
        for number, fields in enumerate(({"tp": 2, "ep": 2, "dp": 2}, {"pp": 2, "ep": 2, "dp": 2},
                                         {"ep": 2, "dp": 4, "bucket_size": 9000})):
            with self.subTest(fields=fields):
                ranks, dist = self.save(fields, **{f"ranks{number}": "distributed_ranks",
                                                   f"dist{number}": "dp_reshardable"})
                self.expect_equal(ranks, dist)
                self.expect_same_files(self.convert(ranks, f"kept{number}"), ranks)

    def test_routers_with_biases_and_shared_experts_with_gates(self):
        fields = {"ep": 2, "dp": 2, "num_layers": 2, "moe_shared_expert_intermediate_size": 40,
                  "moe_shared_expert_gate": True, "moe_router_enable_expert_bias": True,
                  "moe_router_score_function": "sigmoid"}
        ranks, dist = self.save(fields, ranks="distributed_ranks", dist="fully_reshardable")
        self.expect_equal(ranks, dist)
        self.expect_same_files(self.convert(ranks, "kept"), ranks)
        ours = self.convert(ranks, "ours", "--target-format", "torch_dist")
        self.expect_loads("fully_reshardable", fields, dist, ours)
        cut = self.convert(dist, "cut", "--target-tensor-parallel-size", "2",
                           "--target-pipeline-parallel-size", "2", "--target-params-dtype", "fp16",
                           "--no-optim")
        import torch
        model = torch.load(os.path.join(cut, "iter_0000001", "mp_rank_01_001_001",
                                        "model_optim_rng.pt"), weights_only=False)["model"]
        self.assertEqual(model["decoder.layers.0.mlp.router.expert_bias"].dtype, torch.float32)
        gate = model["decoder.layers.0.mlp.shared_experts.gate_weight"]
        self.assertEqual((gate.dtype, tuple(gate.shape)), (torch.float16, (1, 32)))
        self.refuse(ranks, "--target-format", "huggingface")
        biased = {"num_layers": 1, "add_bias_linear": True}
        ranks, dist = self.save(biased, biased="plain_ranks", biased_dist="fully_reshardable")
        self.expect_equal(ranks, dist, self.convert(ranks, "biased_ours", "--target-format",
                                                    "torch_dist"))

    def test_layers_that_differ_have_names_of_their_own(self):
        for number, frequency in enumerate(([0, 1, 1, 0], [1, 1, 1, 1], 2)):
            with self.subTest(frequency=frequency):
                fields = {"ep": 2, "dp": 2, "moe_layer_freq": frequency}
                ranks, dist = self.save(fields, **{f"ranks{number}": "distributed_ranks",
                                                   f"dist{number}": "fully_reshardable"})
                self.expect_equal(ranks, dist)
                ours = self.convert(ranks, f"ours{number}", "--target-format", "torch_dist")
                self.expect_loads("fully_reshardable", fields, dist, ours)
                self.expect_equal(ranks, ours)

    def test_what_does_not_fit_is_refused(self):
        import torch
        saved, = self.save({"ep": 2, "dp": 2}, saved="distributed_ranks")
        path = os.path.join(saved, "iter_0000001", "mp_rank_00_001", "distrib_optim.pt")
        state = torch.load(path, weights_only=False)
        key, = state[1][0]

        def refused(change, *words):
            changed = torch.load(path, weights_only=False)
            changed = change(changed) or changed  # a new value, or changed in place
            torch.save(changed, path)
            error = self.refuse(saved)
            for word in ("distrib_optim.pt", *words):
                self.assertIn(word, error)
            torch.save(state, path)

        refused(lambda found: found[1], "two optimizers")
        refused(lambda found: [found[1], None], "buffers")
        refused(lambda found: found[1][0][key].update(param=found[1][0][key]["param"] + 1.0),
                "expected the fp32")
        refused(lambda found: found[1][0][key].update(exp_avg=None), "exp_avg")
        for kind in ("param", "exp_avg", "exp_avg_sq"):
            state[1][0][key][kind] = state[1][0][key][kind][:-1].clone()
        state[1][0][key]["numel_unpadded"] -= 1
        torch.save(state, path)
        self.assertIn("expected buckets for", self.refuse(saved))
        os.remove(path)
        self.assertIn("distrib_optim.pt beside it", self.refuse(saved))
        self.convert(saved, "weights", "--no-optim")


class OtherTensorRanks(Case):
    """--expert-tensor-parallel-size beside another --tensor-model-parallel-size."""

    def test_buffers_are_put_together_and_cut_again(self):
        for number, fields in enumerate(({"tp": 2, "ep": 2, "dp": 1, "etp": 1, "swiglu": True},
                                         {"tp": 2, "ep": 2, "dp": 2, "etp": 1, "pp": 2},
                                         {"tp": 1, "ep": 2, "dp": 4, "etp": 2, "swiglu": True})):
            with self.subTest(fields=fields):
                whole, dist, object_ = self.save(fields, **{
                    f"whole{number}": "fully_reshardable", f"dist{number}": "dp_reshardable",
                    f"object{number}": "dp_zero_gather_scatter"})
                self.expect_equal(whole, dist, object_)
                upgraded = self.convert(dist, f"upgraded{number}", "--target-format", "torch_dist")
                self.expect_loads("fully_reshardable", fields, whole, upgraded)

    def test_rank_files_are_read_and_written(self):
        size = "--target-expert-tensor-parallel-size"
        for number, fields in enumerate(({"tp": 2, "ep": 2, "dp": 1, "etp": 1, "swiglu": True},
                                         {"tp": 2, "ep": 4, "dp": 4, "etp": 1, "bf16": False},
                                         {"tp": 4, "ep": 2, "dp": 1, "etp": 2, "swiglu": True},
                                         {"tp": 2, "ep": 2, "dp": 1, "etp": 1, "pp": 2,
                                          "moe_grouped_gemm": True,
                                          "moe_use_legacy_grouped_gemm": True})):
            with self.subTest(fields=fields):
                ranks, dist, plain = self.save(fields, **{
                    f"ranks{number}": "distributed_ranks", f"of_all{number}": "fully_reshardable",
                    f"plain{number}": "plain_ranks"})
                self.expect_equal(ranks, dist)
                self.expect_equal(ranks, plain)
                etp, tp = str(fields["etp"]), str(fields["tp"])
                whole = self.convert(plain, f"whole{number}", size, tp)
                self.expect_equal(plain, whole)
                back = self.convert(whole, f"back{number}", size, etp)
                self.expect_equal(plain, back)
                if "moe_grouped_gemm" in fields:
                    continue  # whose form is not written
                self.expect_same_files(self.convert(ranks, f"kept{number}"), ranks)
                cut = self.convert(dist, f"cut{number}", "--target-format", "torch",
                                   "--target-optimizer", "distributed")
                self.expect_equal(dist, cut)
                self.assertEqual(names_of(cut), names_of(ranks))
                self.expect_same_files(
                    self.convert(self.convert(ranks, f"over_all{number}", size, tp),
                                 f"again{number}", size, etp), ranks)
                self.expect_same_files(back, plain, ["model_optim_rng.pt"])

    def test_rank_files_that_megatron_leaves_incomplete_are_refused(self):
        saved, = self.save({"tp": 2, "ep": 1, "dp": 1, "etp": 1}, alone="plain_ranks")
        self.assertIn("only so many ranks save rank files", self.refuse(saved))
        missing, = self.save({"tp": 2, "ep": 2, "dp": 1, "etp": 1}, missing="plain_ranks")
        shutil.rmtree(os.path.join(missing, "iter_0000001", "mp_rank_01_001"))
        self.assertIn("expert 2 with expert tensor 1 in args), found 1; missing: mp_rank_01_001",
                      self.refuse(missing))

    def test_what_is_in_the_buffers_of_all_is_refused(self):
        saved, = self.save({"tp": 2, "ep": 1, "dp": 1, "etp": 1}, saved="dp_reshardable")
        self.assertIn("expert_tensor_parallel_size 1", self.refuse(saved))
        self.convert(saved, "weights", "--no-optim")


class OneMatrixOfAllExperts(Case):
    """--moe-use-legacy-grouped-gemm, whose state is that of the whole matrix."""

    def test_optimizers_are_those_of_single_experts(self):
        for number, fields in enumerate((
                {"ep": 2, "dp": 2, "swiglu": True}, {"ep": 1, "dp": 2}, {"ep": 2, "dp": 2, "bf16": False},
                {"ep": 2, "dp": 2, "pp": 2, "swiglu": True, "bucket_size": 9000})):
            with self.subTest(fields=fields):
                fields |= {"moe_grouped_gemm": True, "moe_use_legacy_grouped_gemm": True}
                *roots, = self.save(fields, **{
                    f"{form}{number}": form for form in
                    ("fully_reshardable", "distributed_ranks", "plain_ranks", "plain")})
                self.expect_equal(*roots)
                ours = self.convert(roots[1], f"ours{number}", "--target-format", "torch_dist")
                self.expect_loads("fully_reshardable", fields, roots[0], ours)
                self.expect_equal(roots[0], self.convert(
                    roots[2], f"cut{number}", "--target-tensor-parallel-size", "2",
                    "--target-expert-parallel-size", "4"))

    def test_flattened_states_are_turned(self):
        fields = {"ep": 2, "dp": 2, "swiglu": True, "moe_grouped_gemm": True, "moe_ffn_hidden_size": 32}
        for flag in (True, None):
            with self.subTest(flag=flag):
                saved, = self.save(fields | {"moe_use_legacy_grouped_gemm": flag},
                                   **{f"saved{flag}": "fully_reshardable"})
                flat = self.path(f"flat{flag}")
                self.run_main("megatron_core.experts", "flatten", {}, [(saved, flat)])
                self.expect_equal(saved, flat)

    def test_states_that_are_not_of_the_weights_are_refused(self):
        import torch
        saved, = self.save({"ep": 2, "dp": 2, "moe_grouped_gemm": True,
                            "moe_use_legacy_grouped_gemm": True}, saved="distributed_ranks")
        path = os.path.join(saved, "iter_0000001", "mp_rank_00_001", "distrib_optim.pt")
        state = torch.load(path, weights_only=False)
        key, = state[1][0]
        state[1][0][key]["param"] += 1.0
        torch.save(state, path)
        self.assertIn("expected the fp32", self.refuse(saved))


class EveryFormNewer(EveryForm):
    python_path = (NEWER,)


if __name__ == "__main__":
    run_tests()
