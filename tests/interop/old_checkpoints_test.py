#!/usr/bin/env python3
"""Checkpoints of 2019 to 2021 through every program: the same model as what Megatron made of it.

old_checkpoints_test.py CHECKPOINT_UTIL CHECKPOINT_INSPECT VERIFY [unittest arguments]
"""
import argparse
import os
import shutil
import sys
import tempfile
import unittest

try:
    import numpy
    import torch

    from reference import cases
    from reference import files as reference_files
    from reference import names as reference_names
    from reference import reshape as reference
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

UTIL = INSPECT = VERIFY = ""
OLD = ["old_deepspeed_tp2", "old_flat2019_tp2", "old_v0_tp2", "old_v1_tp2"]
MODEL = "gpt_tp2pp2_fp16"  # whose weights they hold, widened
TODAY = MODEL + "__to_tp1pp1"
SHAPE = {"--num-layers": "4", "--hidden-size": "32", "--num-attention-heads": "4",
         "--max-position-embeddings": "64"}
HEADS = 4


def flags_of(shape):
    return [word for pair in shape.items() for word in pair]


def shape_flags(case):
    return [] if case.startswith("old_v") else flags_of(SHAPE)


def order_of_version(tensor, version):
    """Rows of a rank's query_key_value from head by head to an older order."""
    parts = tensor.reshape(HEADS // 2, 3, -1, *tensor.shape[1:])
    moved = parts.transpose(0, 1) if version == 0 else parts.transpose(1, 2)
    return moved.reshape(tensor.shape).contiguous()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name="saved"):
        return os.path.join(self.folder, name)

    def run_ok(self, *words):
        done = cases.run(*words)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        return done

    def run_refused(self, *words):
        done = cases.run(*words)
        self.assertEqual(done.returncode, 1, f"{words}: {done.stdout}")
        last = done.stderr.strip().splitlines()[-1]
        self.assertTrue(last.startswith("error: "), last)
        self.assertFalse(os.path.exists(self.path()))
        return last

    def convert(self, load, save, *flags):
        return self.run_ok(UTIL, "--load-dir", load, "--save-dir", save, *flags)

    def refuse(self, load, *flags):
        return self.run_refused(UTIL, "--load-dir", load, "--save-dir", self.path(), *flags)

    def assert_same_weights(self, root, rows=None, dtype=torch.float32):
        """As Megatron's own conversion of the same run has them."""
        theirs = reference.merge(cases.path(MODEL)).tensors
        ours = reference.merge(root, heads=HEADS).tensors
        self.assertEqual(sorted(ours), sorted(theirs))
        for name, kinds in theirs.items():
            expected = kinds["weight"].to(dtype)
            found = ours[name]["weight"]
            if rows and name in reference_names.VOCABULARY:
                expected, found = expected[:rows], found[:rows]
            self.assertTrue(torch.equal(found, expected), name)

    def save(self, root, ranks, folder="iter_0001000", tracker="1000", **options):
        for (t, p), state in ranks.items():
            name = f"mp_rank_{t:02d}" if len({p for _, p in ranks}) == 1 else \
                f"mp_rank_{t:02d}_{p:03d}"
            os.makedirs(os.path.join(root, folder, name))
            torch.save(state, os.path.join(root, folder, name, "model_optim_rng.pt"), **options)
        with open(os.path.join(root, "latest_checkpointed_iteration.txt"), "w") as file:
            file.write(tracker)


class EveryProgram(Case):
    def test_reshapes_to_any_layout(self):
        for case in OLD:
            for tp, pp, names in ((1, 1, []), (2, 1, ["--target-names", "legacy"]),
                                  (4, 2, ["--target-names", "mcore"])):
                save = self.path(f"{case}_{tp}{pp}")
                with self.subTest(case=case, tp=tp, pp=pp):
                    self.convert(cases.path(case), save, *shape_flags(case), *names,
                                 "--target-tensor-parallel-size", str(tp),
                                 "--target-pipeline-parallel-size", str(pp))
                    self.assert_same_weights(save)
                    state = reference_files.load_ranks(save)[0, 0]
                    self.assertGreaterEqual(state["checkpoint_version"], 2.0)
                    self.assertEqual(state["iteration"], 1000)
                    self.assertEqual(state["args"].num_layers, 4)
                    self.assertEqual(state["args"].padded_vocab_size, 304)

    def test_goes_through_torch_dist(self):
        for case in OLD:
            with self.subTest(case=case):
                dist, back = self.path(case + "_dist"), self.path(case + "_back")
                self.convert(cases.path(case), dist, *shape_flags(case),
                             "--target-format", "torch_dist")
                self.convert(dist, back, "--target-tensor-parallel-size", "1")
                self.assert_same_weights(back)
                done = self.run_ok(VERIFY, "diff", cases.path(case), dist, *shape_flags(case))
                self.assertIn("equal", done.stdout)

    def test_becomes_a_model_of_transformers_with_megatrons_logits(self):
        from transformers import GPT2LMHeadModel
        reference_folder = os.path.join(cases.path(TODAY), "reference")
        tokens = torch.from_numpy(numpy.load(os.path.join(reference_folder, "tokens.npy")))
        expected = numpy.load(os.path.join(reference_folder, "logits_gelu_tanh.npy"))
        for case in OLD:
            with self.subTest(case=case):
                save = self.path(case + "_hf")
                self.convert(cases.path(case), save, *shape_flags(case),
                             "--target-format", "huggingface", "--true-vocab-size", "290")
                model = GPT2LMHeadModel.from_pretrained(save, dtype=torch.float32).eval()
                with torch.no_grad():
                    logits = model(tokens[:, :-1]).logits.numpy()
                self.assertLess(abs(logits - expected[..., :290]).max(), 2e-5)

    def test_is_verified_and_inspected(self):
        for case in OLD:
            with self.subTest(case=case):
                done = self.run_ok(VERIFY, "checkpoint", cases.path(case), *shape_flags(case))
                self.assertIn("62656 parameters", done.stdout)
                done = self.run_ok(INSPECT, cases.path(case), *shape_flags(case))
                self.assertIn("4 layers, hidden 32, 4 heads", done.stdout)
                for other in OLD:
                    done = self.run_ok(VERIFY, "diff", cases.path(case), cases.path(other),
                                       *flags_of(SHAPE))
                    self.assertIn("equal (52 parameters", done.stdout)


class MissingArgs(Case):
    def test_the_flag_that_lacks_is_named(self):
        for case in ("old_deepspeed_tp2", "old_flat2019_tp2"):
            for flag in SHAPE:
                left = {name: value for name, value in SHAPE.items() if name != flag}
                with self.subTest(case=case, flag=flag):
                    last = self.refuse(cases.path(case), *flags_of(left))
                    self.assertIn(flag[2:].replace("-", "_"), last)

    def test_wrong_shapes_are_refused(self):
        for flag, value in (("--num-layers", "5"), ("--hidden-size", "64"),
                            ("--max-position-embeddings", "128")):
            with self.subTest(flag=flag):
                self.refuse(cases.path("old_flat2019_tp2"), *flags_of({**SHAPE, flag: value}))


class Release345M(Case):
    """The layout of the public GPT-345M: `release`, one rank, no args, torch's file of before 1.6."""

    def test_is_read_whatever_the_height_of_its_table(self):
        source = reference_files.load_ranks(cases.path("old_v0_tp2"))
        merged = reference.merge(cases.path("old_v0_tp2")).tensors
        names = list(reference_names.flat(source[0, 0]["model"]))
        for rows in (290, 296):
            tree = {"language_model": {"embedding": {"word_embeddings": {},
                                                     "position_embeddings": {}},
                                       "transformer": {}}}
            for name in names:
                known, layer = reference_names.canonical(name, True)
                tensor = merged[reference_names.with_layer(known, layer)]["weight"].half()
                if "query_key_value" in name:
                    parts = tensor.reshape(HEADS, 3, -1, *tensor.shape[1:])
                    tensor = parts.transpose(0, 1).reshape(tensor.shape).contiguous()
                if known == reference_names.WORD:
                    tensor = tensor[:rows].clone()
                keys = name.split(".", 2)
                where = tree["language_model"][keys[1]]
                if keys[1] == "embedding":
                    where[keys[2].split(".")[0]]["weight"] = tensor
                else:
                    where[keys[2]] = tensor
            root = self.path(f"release{rows}")
            self.save(root, {(0, 0): {"iteration": 0, "model": tree}}, folder="release",
                      tracker="release", _use_new_zipfile_serialization=False)
            for tp in (1, 2):
                save = self.path(f"saved{rows}_{tp}")
                with self.subTest(rows=rows, tp=tp):
                    self.convert(root, save, *flags_of(SHAPE), "--target-names", "mcore",
                                 "--make-vocab-size-divisible-by", "8", "--true-vocab-size",
                                 "290", "--target-tensor-parallel-size", str(tp))
                    self.assertEqual(sorted(os.listdir(os.path.join(save, "release"))),
                                     [f"mp_rank_{t:02d}" for t in range(tp)])
                    self.assert_same_weights(save, rows=290, dtype=torch.float16)
                    table = reference.merge(save).tensors[reference_names.WORD]["weight"]
                    self.assertEqual(len(table), 296 if tp == 1 else 304)


class OldOptimizers(Case):
    """The mixed-precision optimizer of v1.0 and v2.0: its words and the version's order of rows."""

    def old_state(self, state, version):
        def reorder(name, tensor):
            return order_of_version(tensor, version) if "query_key_value" in name else tensor
        model = state["model"]["language_model"]
        names = list(reference_names.flat(state["model"]))
        weights = reference_names.flat(state["model"])
        decayed = [name for name in names
                   if weights[name].dim() > 1 and not name.endswith(".bias")]
        order = decayed + [name for name in names if name not in decayed]
        optimizer = state["optimizer"]
        entries = optimizer["optimizer"]["state"]
        inner = {"state": {number: {key: reorder(order[number], tensor)
                                    for key, tensor in entry.items()}
                           for number, entry in entries.items()},
                 "param_groups": [{key: value for key, value in group.items()
                                   if key not in ("wd_mult", "lr_mult")}
                                  for group in optimizer["optimizer"]["param_groups"]]}
        inner["param_groups"][0]["weight_decay"] = 0.1
        inner["param_groups"][1]["weight_decay"] = 0.0
        numbers = iter(order)
        masters = [[reorder(next(numbers), tensor) for tensor in group]
                   for group in optimizer["fp32_from_fp16_params"]]
        args = argparse.Namespace(num_layers=4, hidden_size=32, num_attention_heads=4,
                                  max_position_embeddings=64, make_vocab_size_divisible_by=8,
                                  padded_vocab_size=304, model_parallel_size=2)
        encoder = {name.replace("self_attention", "attention"): reorder(name, tensor)
                   for name, tensor in model["encoder"].items()}
        old = {"args": args, "iteration": 1000,
               "model": {"language_model": {"embedding": model["embedding"],
                                            "transformer": encoder}},
               "optimizer": {"optimizer_state_dict": inner, "fp32_from_fp16": masters}}
        if version:
            old["checkpoint_version"] = version
        return old

    def test_moments_and_masters_follow_their_weights(self):
        today = self.path("today")
        self.convert(cases.path(MODEL), today, "--target-tensor-parallel-size", "2",
                     "--target-pipeline-parallel-size", "1")
        for version in (0, 1.0):
            root = self.path(f"old{version}")
            self.save(root, {key: self.old_state(state, version) for key, state
                             in reference_files.load_ranks(today).items()})
            for tp, pp in ((1, 2), (4, 1)):
                with self.subTest(version=version, tp=tp, pp=pp):
                    flags = ["--target-tensor-parallel-size", str(tp),
                             "--target-pipeline-parallel-size", str(pp)]
                    save, like = self.path(f"{version}{tp}{pp}"), self.path(f"like{version}{tp}{pp}")
                    self.convert(root, save, *flags, "--target-names", "legacy")
                    self.convert(today, like, *flags)
                    ours = reference_files.load_ranks(save)
                    for key, state in reference_files.load_ranks(like).items():
                        mine = ours[key]["optimizer"]
                        theirs = state["optimizer"]
                        for left, right in zip(sum(mine["fp32_from_fp16"], []),
                                               sum(theirs["fp32_from_fp16_params"], []),
                                               strict=True):
                            self.assertTrue(torch.equal(left, right))
                        entries = theirs["optimizer"]["state"]
                        found = mine["optimizer_state_dict"]["state"]
                        self.assertEqual(sorted(found), sorted(entries))
                        for number, entry in entries.items():
                            for kind, tensor in entry.items():
                                self.assertTrue(torch.equal(found[number][kind], tensor))


class DeepSpeed(Case):
    def copy(self):
        root = self.path("source")
        shutil.copytree(cases.path("old_deepspeed_tp2"), root)
        return root

    def change(self, root, change):
        for name in ("mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt"):
            path = os.path.join(root, "1000", name)
            state = reference_files.load_file(path)
            change(state)
            torch.save(state, path)

    def test_the_tracker_of_deepspeed_examples_names_the_tag(self):
        root = self.copy()
        os.remove(os.path.join(root, "latest"))
        with open(os.path.join(root, "latest_checkpointed_iteration.txt"), "w") as file:
            file.write("1000")
        self.convert(root, self.path(), *flags_of(SHAPE))
        self.assert_same_weights(self.path())

    def test_tags_with_words_say_the_iteration(self):
        root = self.copy()
        os.rename(os.path.join(root, "1000"), os.path.join(root, "global_step1000"))
        with open(os.path.join(root, "latest"), "w") as file:
            file.write("global_step1000")
        self.convert(root, self.path(), *flags_of(SHAPE))
        self.assertEqual(sorted(os.listdir(self.path())),
                         ["iter_0001000", "latest_checkpointed_iteration.txt"])

    def test_wrappers_in_front_of_names_are_left_out(self):
        root = self.copy()

        def wrap(state):
            state["module"] = {f"module.{name}": tensor for name, tensor in state["module"].items()}
        self.change(root, wrap)
        self.convert(root, self.path(), *flags_of(SHAPE))
        self.assert_same_weights(self.path())

    def test_optimizers_that_are_not_read_are_named_and_left_out_when_asked(self):
        root = self.copy()
        zero = os.path.join(root, "1000", "zero_pp_rank_0_mp_rank_00_optim_states.pt")
        torch.save({}, zero)
        self.assertIn("ZeRO", self.refuse(root, *flags_of(SHAPE)))
        os.remove(zero)

        def flatten(state):
            state["optimizer"] = {"cur_scale": 1.0, "fp32_groups_flat": [torch.zeros(4)],
                                  "optimizer_state_dict": {"state": {}, "param_groups": []}}
        self.change(root, flatten)
        self.assertIn("flat groups", self.refuse(root, *flags_of(SHAPE)))
        self.convert(root, self.path(), *flags_of(SHAPE), "--no-optim")
        self.assert_same_weights(self.path())

    def test_files_of_layers_are_refused(self):
        root = self.copy()
        torch.save({}, os.path.join(root, "1000", "layer_00-model_00-model_states.pt"))
        self.assertIn("layer_00-model_00-model_states.pt", self.refuse(root, *flags_of(SHAPE)))

    def test_a_missing_rank_is_told_by_the_world_size(self):
        root = self.copy()
        self.change(root, lambda state: state.update(mp_world_size=2))
        os.remove(os.path.join(root, "1000", "mp_rank_01_model_states.pt"))
        self.assertIn("missing: mp_rank_01", self.refuse(root, *flags_of(SHAPE)))
        done = cases.run(VERIFY, "checkpoint", root)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("/mp_rank_01_model_states.pt: rank_files: expected 2 rank files (tensor 2 x pipeline 1 in args), "
                      "found no such file", done.stdout)


class OtherModels(Case):
    def test_are_refused_by_name(self):
        base = reference_files.load_ranks(cases.path(TODAY))[0, 0]
        # Their args need not have what GPT's have.
        args = argparse.Namespace(hidden_size=32)
        layer = "layers.0.mlp.dense_h_to_4h.weight"
        some = torch.zeros(4, 4)
        models = {
            "BERT": {"lm_head": {"dense.weight": some, "bias": some},
                     "binary_head": {"weight": some}},
            "T5": {"lm_head": {"bias": some}},
            "GPT-NeoX": {"sequential.0.word_embeddings.weight": some},
        }
        for model, more in models.items():
            state = {**base, "args": args, "model": {**base["model"], **more}}
            if model == "T5":
                state["model"]["language_model"] = {
                    **base["model"]["language_model"],
                    "decoder": {layer: some, "layers.0.inter_attention.dense.weight": some}}
            root = self.path(model)
            self.save(root, {(0, 0): state})
            with self.subTest(model=model):
                self.assertIn(f"found {model},", self.refuse(root))
                self.assertIn(f"found {model},", self.run_and_fail(root))

    def run_and_fail(self, root):
        done = cases.run(VERIFY, "checkpoint", root)
        self.assertEqual(done.returncode, 1)
        return done.stdout + done.stderr


if __name__ == "__main__":
    if len(sys.argv) < 4 or not os.path.isdir(cases.ORACLE):
        print("skipped: no shared folder with checkpoints of the real Megatron-LM")
        sys.exit(77)
    UTIL, INSPECT, VERIFY = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
    unittest.main()
