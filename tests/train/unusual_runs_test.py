#!/usr/bin/env python3
"""pretrain_gpt with flags and checkpoints that are legal and seldom together.

unusual_runs_test.py PRETRAIN_GPT CHECKPOINT_INSPECT
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("MEG_SHARED", ROOT.parent / "shared"))
ORACLE = SHARED / "oracle" / "training"
PRETRAIN, INSPECT = (os.path.abspath(path) for path in sys.argv[1:3])
RUN = ("--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 "
       "--max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 8 --lr 0.005 "
       "--vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt --split 90,8,2 --eval-interval 5 "
       "--eval-iters 2 --log-interval 1 --device cpu").split()
DATA = ["--data-path", "data/tiny"]


class UnusualRuns(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def train(self, *flags, data=DATA, code=0):
        command = [PRETRAIN, *RUN, *data, "--data-cache-path", self.folder / "cache", *flags]
        done = subprocess.run(list(map(str, command)), cwd=ORACLE, capture_output=True, text=True,
                              timeout=300)
        self.assertEqual(done.returncode, code, done.stdout[-2000:] + done.stderr)
        return done

    def refused(self, *flags, data=DATA):
        return self.train(*flags, data=data, code=1).stderr.splitlines()[-1]

    def losses(self, done):
        return re.findall(r"iteration +(\d+)/.*lm loss: ([\d.E+-]+)", done.stdout)

    def changed(self, save, change):
        """The checkpoint with another content, as a program of somebody else's may have written it."""
        try:
            import torch
        except ImportError:
            self.skipTest("torch was not found")
        for path in save.glob("iter_*/mp_rank_00/model_optim_rng.pt"):
            state = torch.load(path, weights_only=False)
            change(state)
            torch.save(state, path)

    def test_a_checkpoint_that_counts_no_samples_goes_on_behind_those_it_saw(self):
        save = self.folder / "save"
        whole = self.train("--train-iters", 8)
        self.train("--train-iters", 8, "--save", save, "--exit-interval", 4)
        self.changed(save, lambda state: [delattr(state["args"], f"consumed_{kind}_samples")
                                          for kind in ("train", "valid")])
        rest = self.train("--train-iters", 8, "--load", save)
        self.assertEqual(self.losses(whole)[4:], self.losses(rest))
        self.assertEqual(re.findall("validation loss.*", whole.stdout),
                         re.findall("validation loss.*", rest.stdout))
        self.assertIn("expected consumed_train_samples in its args, where --train-samples goes on",
                      self.refused("--train-samples", 64, "--load", save, "--override-opt_param-scheduler"))

    def test_weights_alone_can_be_evaluated(self):
        save = self.folder / "save"
        done = self.train("--train-iters", 4, "--save", save, "--no-save-optim")
        self.assertIn("--no-load-optim", self.refused("--train-iters", 6, "--load", save))
        evaluated = self.train("--train-iters", 4, "--load", save, "--skip-train",
                               "--megatron-version", "core_v0.12.0")
        self.assertEqual(*(re.findall(r"on test set \| (lm loss value: [\d.E+-]+)", run.stdout)
                           for run in (done, evaluated)))

    def test_documents_have_one_source(self):
        for data, flags in ((["--data-path", "data/tiny", "--train-data-path", "data/tiny"],
                             "--data-path and --train-data-path"),
                            (["--data-path", "data/tiny", "--mock-data"], "--mock-data and --data-path")):
            self.assertEqual(self.refused("--train-iters", 1, data=data),
                             f"error: expected one of {flags}, found both")

    def test_legacy_models_are_their_names(self):
        names = [subprocess.run([INSPECT, save, "--tensors"], capture_output=True, text=True, check=True).stdout
                 for save, flags in ((self.folder / "a", ["--use-legacy-models"]),
                                     (self.folder / "b", ["--target-names", "legacy"]))
                 if self.train("--train-iters", 1, "--save", save, "--ckpt-format", "torch", *flags)]
        self.assertIn("language_model/encoder/layers.1.self_attention.query_key_value.weight", names[0])
        self.assertEqual(*(re.findall(r"^  \S+", text, re.M) for text in names))

    def test_what_a_revision_passes_over_is_said(self):
        done = self.train("--train-samples", 16, "--rampup-batch-size", 4, 4, 8, "--megatron-version",
                          "core_v0.18.0")
        self.assertIn("note: --rampup-batch-size has no effect in core_v0.18.0 of Megatron-LM",
                      done.stderr.splitlines())
        self.assertEqual(len(self.losses(done)), 2)

    def test_iterations_to_skip_are_counted_as_the_revision_counts_them(self):
        for flags, steps, said in (
                ([], ["2", "3"], "--iterations-to-skip counts from 0, as up to core 0.16"),
                (["--megatron-version", "core_v0.16.0"], ["2", "3"], ""),
                (["--megatron-version", "core_v0.17.0"], ["1", "2", "3"],
                 "--iterations-to-skip 0: core_v0.17.0 of Megatron-LM counts from 1")):
            done = self.train("--train-iters", 3, "--iterations-to-skip", 0, *flags)
            self.assertEqual([step for step, _ in self.losses(done)], steps, flags)
            notes = [line for line in done.stderr.splitlines() if "--iterations-to-skip" in line]
            self.assertEqual(len(notes), 1 if said else 0, notes)
            self.assertIn(said, "".join(notes))
        done = self.train("--train-iters", 3, "--iterations-to-skip", 1, 3, "--megatron-version", "core_v0.18.0")
        self.assertEqual([step for step, _ in self.losses(done)], ["2"])

    def test_a_blend_may_ask_its_datasets_for_more(self):
        data = ["--data-path", 1, "data/tiny", 2, "data/tiny"]
        self.train("--train-iters", 2, data=data)
        more = self.train("--train-iters", 2, "--mid-level-dataset-surplus", 0.5, data=data)
        self.assertEqual(len(self.losses(more)), 2)
        names = [path.name for path in (self.folder / "cache").glob("*-GPTDataset-train-description.txt")]
        self.assertEqual(len(names), 4, "other numbers of samples are other caches")
        self.assertIn("core_v0.10.0 has none",
                      self.refused("--train-iters", 2, "--mid-level-dataset-surplus", 0.5, "--megatron-version",
                                   "core_v0.10.0", data=data))

    def test_index_caches_are_mapped_later_where_that_is_asked_for(self):
        plain = self.train("--train-iters", 2)
        self.assertEqual(self.losses(self.train("--train-iters", 2, "--dataloader-defer-npy-index-mmap")),
                         self.losses(plain))

    def test_a_revision_computes_without_what_its_models_do_not_use(self):
        rope = ["--train-iters", 3, "--position-embedding-type", "rope", "--attention-dropout", 0, "--hidden-dropout", 0]
        plain, save = self.losses(self.train(*rope)), self.folder / "save"
        factor = ["--rotary-seq-len-interpolation-factor", 4]
        self.assertNotEqual(self.losses(self.train(*rope, *factor)), plain)
        for version in ("core_v0.4.0", "core_v0.12.3", "core_v0.18.0"):
            done = self.train(*rope, *factor, "--megatron-version", version)
            self.assertEqual([loss for loss in self.losses(done)], self.losses(
                self.train(*rope, "--megatron-version", version)))
            self.assertRegex(done.stderr, "note: --rotary-seq-len-interpolation-factor has no effect in core_v")
        self.assertNotEqual(self.losses(self.train(*rope, *factor, "--megatron-version", "core_v0.19.0")), plain)
        # Megatron saves what the flag says.
        self.train(*rope, "--save", save)
        self.changed(save, lambda state: setattr(state["args"], "rotary_seq_len_interpolation_factor", 4))
        self.train(*rope[2:], *factor, "--train-iters", 4, "--load", save, "--megatron-version", "core_v0.12.3",
                   "--override-opt_param-scheduler")

    def test_a_flag_that_needs_another_one_is_said(self):
        done = self.train("--train-iters", 1, "--num-query-groups", 2, "--rope-scaling-factor", 16)
        for flag, needed in (("num-query-groups", "group-query-attention"),
                             ("rope-scaling-factor", "use-rope-scaling")):
            self.assertIn(f"note: --{flag} has no effect without --{needed}, as in Megatron-LM",
                          done.stderr.splitlines())

    def test_the_list_of_arguments_is_printed_on_demand(self):
        done = self.train("--train-iters", 1, "--print-arguments")
        lines = done.stdout.splitlines()
        self.assertIn("------------------------ arguments ------------------------", lines)
        self.assertIn("  params_dtype .................................... torch.float32", lines)
        self.assertIn("  data_path ....................................... ['data/tiny']", lines)
        self.assertNotIn(" arguments ---", self.train("--train-iters", 1).stdout)

    def test_the_last_evaluations_say_how_far_they_are(self):
        done = self.train("--train-iters", 5)
        self.assertEqual(re.findall("^Evaluating .*$", done.stdout, re.M),
                         ["Evaluating on 16 samples", "Evaluating iter 1/2", "Evaluating iter 2/2"] * 2)

    def test_zeros_are_counted_where_megatron_counts_them(self):
        for version, count in (("core_v0.11.0", 0), ("core_v0.12.3", 2), ("core_v0.16.0", 0)):
            done = self.train("--train-iters", 2, "--megatron-version", version)
            self.assertEqual(len(re.findall(r"num zeros: \d+\.0 \|", done.stdout)), count, version)

    def test_all_that_is_missing_is_named_at_once(self):
        done = subprocess.run([PRETRAIN, "--lr", "1"], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(
            done.stderr.splitlines()[-1],
            "error: --num-layers or --hybrid-layer-pattern, --hidden-size, --num-attention-heads, --seq-length, "
            "--micro-batch-size or --global-batch-size, --train-iters or --train-samples, "
            "--data-path or --mock-data, --vocab-file and --merge-file or another "
            "--tokenizer-type: required")

    def test_the_checkpoint_gives_the_sequence_length(self):
        save = self.folder / "save"
        self.train("--train-iters", 1, "--save", save)
        command = [PRETRAIN, "--use-checkpoint-args", "--load", save, *RUN[10:], *DATA, "--train-iters", "2",
                   "--override-opt_param-scheduler", "--print-arguments"]
        done = subprocess.run(command, cwd=ORACLE, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\n  seq_length \.+ 32\n")

    def test_the_checkpoints_tokenizer_is_used_where_none_is_named(self):
        save = self.folder / "save"
        self.train("--train-iters", 1, "--save", save)
        command = [PRETRAIN, "--use-checkpoint-args", "--load", save, *RUN[6:], *DATA, "--train-iters", "2",
                   "--override-opt_param-scheduler", "--vocab-file", "", "--merge-file", ""]
        done = subprocess.run(command, cwd=ORACLE, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run([*command, "--no-use-tokenizer-model-from-checkpoint-args"], cwd=ORACLE, capture_output=True, text=True,
                              timeout=300)
        self.assertIn("GPT2BPETokenizer needs --vocab-file; the checkpoint's args say --tokenizer-type "
                      "GPT2BPETokenizer --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt", done.stderr)
        carried = sorted(path.name for path in (save / "iter_0000001" / "tokenizer").iterdir())
        self.assertEqual(carried, ["gpt2-merges.txt", "gpt2-vocab.json"])

    def test_what_megatron_refuses_is_refused(self):
        for flags, code, message in (
                (["--seed", 0], 2, "--seed: expected 1 to 4294967295, found 0"),
                (["--recompute-granularity", "full"], 1, "recompute_method: expected uniform or block"),
                (["--recompute-activations", "--recompute-method", "uniform"], 1,
                 "recompute_method: only with recompute_granularity full"),
                (["--position-embedding-type", "rope", "--seq-length", 33], 1,
                 "max_position_embeddings: expected at least the sequence length 33, found 32"),
                (["--position-embedding-type", "rope", "--rotary-interleaved", "--target-names", "legacy"], 1,
                 "rotary_interleaved: requires core's names"),
                (["--prepare-cache-world-size", 2], 1,
                 "--prepare-cache-world-size: expected the 1 rank of this run, found 2")):
            with self.subTest(flags=flags):
                self.assertIn(message, self.train("--train-iters", 1, *flags, code=code).stderr.splitlines()[-1])

    def test_a_save_without_an_interval_says_when(self):
        done = self.train("--train-iters", 1, "--save", self.folder / "save")
        self.assertIn("note: --save without --save-interval: saved only at the end of the run", done.stderr)

    def test_an_external_loader_is_refused(self):
        self.assertEqual(self.refused("--train-iters", 1, "--dataloader-type", "external"),
                         "error: --dataloader-type external: not supported yet (would change the data)")

    def test_the_checkpoints_scaling_of_attention_is_taken(self):
        save, on = self.folder / "save", self.folder / "on"
        self.train("--train-iters", 2, "--save", save, "--apply-query-key-layer-scaling")
        self.train("--train-iters", 3, "--load", save, "--save", on, "--use-checkpoint-args",
                   "--override-opt_param-scheduler")
        args = subprocess.run([INSPECT, on, "--args"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(args, r"apply_query_key_layer_scaling\W+True")

    def test_other_settings_of_adam_are_told(self):
        save = self.folder / "save"
        self.train("--train-iters", 2, "--save", save, "--exit-interval", 1)
        flags = ["--train-iters", 2, "--load", save]
        self.assertNotIn("WARNING", self.train(*flags).stdout)
        told = [line for line in self.train(*flags, "--adam-beta2", 0.95, "--adam-eps", 1e-6).stdout.splitlines()
                if line.startswith("WARNING")]
        self.assertEqual([line.split(",")[0] for line in told],
                         ["WARNING: adam_beta2: 0.999 in the checkpoint", "WARNING: adam_eps: 1e-08 in the checkpoint"])

    def test_rates_of_a_groups_own_are_refused(self):
        save = self.folder / "save"
        self.train("--train-iters", 2, "--save", save, "--exit-interval", 1)
        self.changed(save, lambda state: state["optimizer"]["param_groups"][1].update(lr_mult=0.5))
        self.assertIn("param_groups: lr_mult: expected 1, found 0.5", self.refused("--train-iters", 2, "--load", save))

    def test_masters_of_other_weights_are_refused(self):
        save = self.folder / "save"
        flags = ["--train-iters", 2, "--bf16"]
        self.train(*flags, "--save", save, "--exit-interval", 1)

        def shift(state):
            masters = state["optimizer"]["fp32_from_fp16_params"][0]
            masters[0].copy_(masters[0].roll(1))
        self.changed(save, shift)
        words = "expected the optimizer's fp32 weights to round to the model's"
        self.assertIn(words, self.refused(*flags, "--load", save))
        self.train(*flags, "--load", save, "--no-load-optim")
        self.train(*flags, "--load", save, "--finetune")

    def test_a_tied_output_layer_of_other_weights_is_refused(self):
        save = self.folder / "save"
        self.train("--train-iters", 2, "--save", save, "--exit-interval", 1)
        table = "embedding.word_embeddings.weight"
        self.changed(save, lambda state: state["model"].update(
            {"output_layer.weight": state["model"][table].clone()}))
        self.train("--train-iters", 2, "--load", save, "--no-load-optim")
        self.changed(save, lambda state: state["model"].update(
            {"output_layer.weight": state["model"][table] + 1}))
        for flags in (["--no-load-optim"], ["--finetune"]):  # the optimizer lacks it
            self.assertIn("output_layer.weight: expected the embedding's weights",
                          self.refused("--train-iters", 2, "--load", save, *flags))

    def test_state_that_core_saved_shifted_is_refused(self):
        case = SHARED / "oracle/checkpoints/core_shift_fp32_tied_pp3_fully_reshardable"
        if not case.is_dir():
            self.skipTest(f"not found: {case}")
        self.assertIn("expected the model's fp32 weights, found different values",
                      self.refused("--train-iters", 3, "--load", case, "--use-checkpoint-args",
                                   "--mock-data", "--tokenizer-type", "NullTokenizer",
                                   "--vocab-size", 200, data=[]))

    def test_experts_beyond_what_is_computed_are_refused_by_name(self):
        moe = ["--train-iters", 1, "--num-experts", 4, "--disable-bias-linear"]
        for flags, named in (
                (["--expert-model-parallel-size", 2], "--expert-model-parallel-size: expected a divisor of 1"),
                (["--moe-router-topk", 5], "moe_router_topk: expected at most the 4 experts"),
                (["--moe-router-group-topk", 2], "moe_router_num_groups: expected a divisor of the 4 experts"),
                (["--moe-router-load-balancing-type", "sinkhorn"], "sinkhorn"),
                (["--moe-input-jitter-eps", 0.1], "moe-input-jitter-eps"),
                (["--moe-router-enable-expert-bias"], "expected moe_router_score_function sigmoid"),
                (["--moe-layer-freq", "[1,0,1,0,1,0,1]"], "layer")):
            with self.subTest(flags):
                self.assertIn(named, self.refused(*moe, *flags))

    def test_experts_go_on_from_ranks_that_shared_them(self):
        case = SHARED / "oracle/checkpoints/mcore_moe_tp1pp1_ep2_bf16"
        if not case.is_dir():
            self.skipTest(f"not found: {case}")
        run = self.train("--train-iters", 3, "--bf16", "--load", case, "--use-checkpoint-args", "--finetune",
                         "--num-layers", 4, "--max-position-embeddings", 64)
        self.assertEqual(len(self.losses(run)), 3)

    def test_a_first_run_may_take_args_from_where_it_saves(self):
        save = self.folder / "save"
        flags = ["--train-iters", 2, "--load", save, "--save", save, "--use-checkpoint-args"]
        self.assertIn("will start from random", self.train(*flags, "--exit-interval", 1).stdout)
        self.assertEqual([step for step, _ in self.losses(self.train(*flags))], ["2"])
        missing = self.refused("--train-iters", 2, "--load", self.folder / "none",
                               "--use-checkpoint-args", "--exit-on-missing-checkpoint")
        self.assertIn(str(self.folder / "none"), missing)


if __name__ == "__main__":
    if not ORACLE.exists():
        print(f"skipped: not found: {ORACLE}", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
