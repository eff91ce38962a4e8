#!/usr/bin/env python3
"""checkpoint_util on every checkpoint of the real Megatron-LM, beside a plain second implementation.

checkpoint_util_test.py PROGRAM [--full] [unittest arguments]
--full: every source, and many more targets and shapes.
"""
import os
import random
import shutil
import sys
import tempfile
import unittest

try:
    import torch

    from reference import cases
    from reference import files as reference_files
    from reference import names as reference_names
    from reference import reshape as reference
    from reference.checks import Checker, Target, same
    from reference.writer import TWISTS, RandomModel, write
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = ""
FULL = False
TRAINED = ["gpt_tp1pp1_fp32", "gpt_tp1pp3_vpp2_fp16", "gpt_tp2pp1_llamaish_bf16",
           "gpt_tp2pp2_bf16_untied", "gpt_tp2pp2_fp16", "mcore_gpt_tp1pp1_fp32",
           "mcore_gpt_tp2pp2_bf16", "mcore_llama_tp1pp1_bf16", "mcore_llama_tp2pp1_fp32",
           "v050_legacy_llama_tp2pp1_bf16"]
WEIGHTS = ["derived_te_names_llama_tp2pp1", "megatron_from_hf_gpt2", "megatron_from_hf_llama_tp2",
           "old_flat2019_tp2", "old_v0_tp2", "old_v1_tp2",
           "gpt_tp2pp1_llamaish_bf16__to_tp4pp2",
           "mcore_gpt_tp1pp1_fp32__to_tp2pp2", "mcore_gpt_tp2pp2_bf16__to_legacy_tp1pp1"]


def layouts(merged):
    """(tp, pp, vpp) that the model's sizes allow."""
    config = merged.config
    for tp in (1, 2, 4):
        if config.heads % tp or config.groups % tp:
            continue
        for pp in (1, 2, 3, 4, 6):
            for vpp in (1, 2, 3):
                if config.layers % (pp * vpp) == 0 and (vpp == 1 or pp > 1):
                    yield tp, pp, vpp


def targets(merged, case):
    """Every target worth asking for."""
    height = merged.tensors[reference_names.WORD]["weight"].shape[0]
    stated = reference.stated_vocabulary(merged)
    vocabularies = [None, *([stated] if stated else [cases.TRUE_VOCAB_SIZE, cases.TRUE_VOCAB_SIZE - 20])]
    for tp, pp, vpp in layouts(merged):
        for names in (None, "mcore", "legacy"):
            for vocabulary in vocabularies:
                if vocabulary is None and height % tp:
                    continue
                for dtype in (None, "fp32", "bf16", "fp16"):
                    yield Target(tp, pp, vpp, names, dtype, vocabulary,
                                 no_optim="distopt" in case or dtype is not None)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def reshape(self, load, save, target, *flags):
        process = cases.reshape(PROGRAM, load, save, target.tp, target.pp, *target.flags(), *flags)
        self.assertEqual(process.returncode, 0, f"{load} -> {target}: {process.stderr}")
        return process

    def saved(self, name="saved"):
        return os.path.join(self.folder, name)


@cases.needs_oracle
class EveryLayoutToEveryOther(Case):
    def check_case(self, case):
        merged = cases.merge(case)
        wanted = list(targets(merged, case))
        wanted = random.Random(case).sample(wanted, min(60 if FULL else 4, len(wanted)))
        for number, target in enumerate(wanted):
            with self.subTest(case=case, target=str(target)):
                save = self.saved(str(number))
                self.reshape(cases.path(case), save, target, *cases.shape_flags(case))
                Checker(self, merged, target, save).check()


def add_cases():
    names = cases.cases() if FULL else TRAINED + WEIGHTS
    for case in names:
        setattr(EveryLayoutToEveryOther, f"test_{case}",
                lambda self, case=case: self.check_case(case))


@cases.needs_oracle
class MegatronsOwnTools(Case):
    """What Megatron's tools made of a checkpoint, tensor for tensor."""

    def test_every_tensor_of_theirs_is_ours(self):
        seen = 0
        for case in cases.cases():
            if "__to_" not in case:
                continue
            source = case.split("__to_")[0]
            theirs = reference_files.load_ranks(cases.path(case))
            config = reference.Config(theirs[0, 0]["args"], theirs)
            # 6ef5bdc and core 0.5 widen what they convert and cannot pad untied tables.
            widens = source.startswith(("gpt_", "v050_"))
            tells = not case.endswith("_novocab") and (source.startswith("mcore") or config.tied)
            target = Target(config.tp, config.pp, dtype="fp32" if widens else None,
                            names="legacy" if "to_legacy" in case else None,
                            true_vocab=cases.TRUE_VOCAB_SIZE if tells else None, no_optim=True)
            with self.subTest(case=case):
                self.reshape(cases.path(source), self.saved(case), target)
                seen += self.compare(case, theirs, reference_files.load_ranks(self.saved(case)))
        self.assertGreater(seen, 1000)

    def compare(self, case, theirs, ours):
        self.assertEqual(sorted(ours), sorted(theirs))
        seen = 0
        for key in theirs:
            left = reference_names.chunks_of(theirs[key])[0]
            right = reference_names.chunks_of(ours[key])[0]
            if all(value is None for name, value in left.items() if name.endswith("_extra_state")):
                self.assertEqual(list(right), list(left), case)
            for name, tensor in left.items():
                if not name.endswith("_extra_state"):
                    self.assertTrue(same(right[name], tensor), name)
                    seen += 1
            self.assertEqual(ours[key]["args"].padded_vocab_size,
                             theirs[key]["args"].padded_vocab_size)
        return seen


@cases.needs_oracle
class ThereAndBack(Case):
    def check_trip(self, case, target, true_vocab):
        merged = cases.merge(case)
        config = merged.config
        self.reshape(cases.path(case), self.saved("there"), target, *cases.shape_flags(case))
        back = Target(config.tp, config.pp, config.vpp, true_vocab=true_vocab,
                      names="mcore" if target.names == "legacy" else
                      "legacy" if target.names else None)
        self.reshape(self.saved("there"), self.saved("back"), back)
        ours = reference_files.load_ranks(self.saved("back"))
        for key, state in merged.ranks.items():
            for name, value in state.items():
                if name in ("model", "model0", "model1", "optimizer", "opt_param_scheduler"):
                    self.assertTrue(same(ours[key][name], value), f"{key} {name}")
            for name, value in vars(state["args"]).items():
                if name not in ("rank", "local_rank"):
                    self.assertTrue(same(getattr(ours[key]["args"], name), value), name)

    def test_gives_the_same_tensors_and_optimizer(self):
        """Also in the padding rows, as the tables between are not shorter."""
        for case in TRAINED:
            merged = cases.merge(case)
            choices = [layout for layout in layouts(merged)
                       if layout[:2] != (merged.config.tp, merged.config.pp)]
            if not FULL:
                choices = random.Random(case).sample(choices, 3)
            height = merged.tensors[reference_names.WORD]["weight"].shape[0]
            for tp, pp, vpp in choices:
                if height % tp:
                    continue
                with self.subTest(case=case, layout=(tp, pp, vpp)):
                    self.check_trip(case, Target(tp, pp, vpp), None)
                    self.doCleanups()
                    self.setUp()

    def test_through_a_longer_table(self):
        self.check_trip("gpt_tp2pp2_fp16", Target(4, 1, true_vocab=290), 290)

    def test_through_mcore_names_the_legacy_order_comes_back(self):
        self.check_trip("gpt_tp2pp2_fp16", Target(1, 4, names="mcore"), None)


@cases.needs_oracle
class WrittenFiles(Case):
    def test_load_with_weights_only(self):
        from megatron_core.stand_ins import safe_globals
        for case in [*TRAINED, "old_v0_tp2", "megatron_from_hf_gpt2"]:
            self.reshape(cases.path(case), self.saved(case), Target(1, 1))
            file = os.path.join(reference_files.iteration_folder(self.saved(case)),
                                "mp_rank_00/model_optim_rng.pt")
            with self.subTest(case=case), torch.serialization.safe_globals(safe_globals()):
                state = torch.load(file, weights_only=True)
                self.assertIn(state["args"].num_layers, (4, 6))

    def test_are_laid_out_as_torch_does(self):
        self.reshape(cases.path("gpt_tp2pp2_fp16"), self.saved(), Target(1, 1))
        file = os.path.join(reference_files.iteration_folder(self.saved()),
                            "mp_rank_00/model_optim_rng.pt")
        state = torch.load(file, mmap=True, weights_only=False,
                           pickle_module=reference_files.PickleModule)
        for tensor in reference_names.flat(state["model"]).values():
            self.assertEqual(tensor.data_ptr() % 64, 0)

    def test_do_not_depend_on_threads_or_budget(self):
        for number, budget in enumerate(("64MiB", "512MiB", "2GiB")):
            self.reshape(cases.path("gpt_tp2pp2_fp16"), self.saved(str(number)), Target(4, 2),
                         "--memory-budget", budget)
        read = [self.bytes_of(self.saved(str(number))) for number in range(3)]
        self.assertEqual(read[0], read[1])
        self.assertEqual(read[0], read[2])

    def bytes_of(self, root):
        result = {}
        for folder, _, files in os.walk(root):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    result[os.path.relpath(os.path.join(folder, name), root)] = file.read()
        return result


class ModelsOfAnyShape(Case):
    """Shapes, dialects and layouts that the oracle lacks: written by torch from a seed."""

    def test_come_out_as_the_reference_says(self):
        for seed in range(400 if FULL else 16):
            model = RandomModel(seed)
            rng = model.rng
            twists = {twist for twist in TWISTS if rng.random() < 0.12}
            tp, pp, vpp = model.layout()
            source, save = self.saved(f"source{seed}"), self.saved(f"saved{seed}")
            whole = model.merged(tp)
            if "uneven stages" in twists and pp > 1 and vpp == 1 and whole.config.layers > pp:
                whole.uneven = [1 + (whole.config.layers - pp) * (stage == 0) for stage in range(pp)]
                model.args.decoder_first_pipeline_num_layers = whole.uneven[0]
            write(source, whole, model.args, tp, pp, vpp, twists)
            merged = reference.merge(source)
            height = merged.tensors[reference_names.WORD]["weight"].shape[0]
            vocabulary = rng.choice([None, model.true_vocab, model.true_vocab - 5])
            sizes = [tp for tp in model.sizes() if vocabulary or height % tp == 0]
            target = Target(*model.layout(sizes), names=rng.choice([None, "mcore", "legacy"]),
                            true_vocab=vocabulary, no_optim=rng.random() < 0.2)
            if (target.pp, target.vpp) == (pp, vpp):
                merged.uneven = whole.uneven
            with self.subTest(seed=seed, family=model.family, source=(tp, pp, vpp), twists=twists,
                              target=str(target)):
                self.reshape(source, save, target)
                Checker(self, merged, target, save).check()
            shutil.rmtree(source)
            shutil.rmtree(save, ignore_errors=True)


@cases.needs_oracle
class Flags(Case):
    def test_iteration_takes_another_than_the_tracker_says(self):
        shutil.copytree(cases.path("gpt_tp2pp2_fp16"), self.saved("source"))
        with open(self.saved("source/latest_checkpointed_iteration.txt"), "w") as file:
            file.write("6000")
        self.reshape(self.saved("source"), self.saved(), Target(1, 1), "--iteration", "5000")
        self.assertEqual(os.listdir(reference_files.iteration_folder(self.saved())), ["mp_rank_00"])

    def test_dry_run_writes_nothing(self):
        process = self.reshape(cases.path("gpt_tp2pp2_fp16"), self.saved(), Target(1, 4),
                               "--dry-run")
        self.assertIn("mp_rank_00_003/model_optim_rng.pt", process.stdout)
        self.assertFalse(os.path.exists(self.saved()))

    def test_vocab_file_says_the_true_size(self):
        process = self.reshape(cases.path("gpt_tp2pp2_fp16"), self.saved(), Target(4, 1),
                               "--vocab-file", os.path.join(cases.ORACLE, "gpt2-vocab.json"))
        self.assertIn(" > padded vocab (size: 290) with 30 dummy tokens (new size: 320)\n",
                      process.stdout)

    def test_the_plan_says_how_many_rows_it_drops(self):
        process = self.reshape(cases.path("gpt_tp2pp2_fp16"), self.saved(), Target(1, 1),
                               "--true-vocab-size", "290")
        self.assertIn("8 padding rows", process.stdout)

    def with_vocab_size(self, size):
        root = self.saved(f"vocabulary{size}")
        shutil.copytree(cases.path("gpt_tp2pp2_fp16"), root)
        for folder, folders, files in os.walk(root):
            for name in [*folders, *files, "."]:
                os.chmod(os.path.join(folder, name), 0o755)
            for name in files:
                if name.endswith("model_optim_rng.pt"):
                    path = os.path.join(folder, name)
                    state = reference_files.load_file(path)
                    state["args"].vocab_size = size
                    reference_files.save_file(state, path)
        return root

    def test_args_that_state_the_vocabulary_pad_it_for_another_tensor_size(self):
        root = self.with_vocab_size(290)
        for tp, rows in ((1, 296), (2, 304), (4, 320)):
            process = self.reshape(root, self.saved(f"to{tp}"), Target(tp, 1))
            merged = reference.merge(self.saved(f"to{tp}"))
            self.assertEqual(merged.tensors[reference_names.WORD]["weight"].shape[0], rows)
            self.assertNotIn("note: args do not state", process.stdout)
        process = self.reshape(cases.path("gpt_tp2pp2_fp16"), self.saved("untold"), Target(4, 1))
        self.assertIn("note: args do not state the vocabulary of the 304 rows: they are kept, and a run "
                      "that does not take padded_vocab_size from args pads its tokenizer's to a "
                      "multiple of 32; --true-vocab-size pads", process.stdout)

    def test_tokens_are_not_dropped_as_padding(self):
        root = self.with_vocab_size(290)
        for target in ("torch", "huggingface"):
            process = cases.run(PROGRAM, "--load-dir", root, "--save-dir", self.saved("less"),
                                "--target-format", target, "--true-vocab-size", "200")
            self.assertEqual(process.returncode, 1, process.stdout)
            self.assertIn("expected at least the 290 tokens that the checkpoint's args state, found "
                          "200", process.stderr)
            self.assertFalse(os.path.exists(self.saved("less")))

    def refuse(self, load, *flags):
        process = cases.run(PROGRAM, "--load-dir", cases.path(load), "--save-dir", self.saved(), *flags)
        self.assertEqual(process.returncode, 1, process.stdout)
        self.assertFalse(os.path.exists(self.saved()))
        return process.stderr.splitlines()[-1]

    def test_every_plug_in_of_megatron_says_its_names(self):
        """Of convert.py from core 0.4 to 0.19; megatron is the older word for legacy."""
        target = Target(1, 1)
        for saver, word in (("megatron", "language_model"), ("legacy", "language_model"),
                            ("mcore", "decoder"), ("core", "decoder")):
            for load, loader in (("mcore_gpt_tp1pp1_fp32", "core"), ("gpt_tp1pp1_fp32", "megatron")):
                with self.subTest(saver=saver, load=load):
                    save = self.saved(f"{saver} of {load}")
                    self.reshape(cases.path(load), save, target, "--saver", saver, "--loader", loader)
                    state, = reference_files.load_ranks(save).values()
                    self.assertIn(word, str(list(state["model"])))

    def test_loaders_of_hugging_face_models_take_their_flags(self):
        load = cases.path("hf_llama")
        for loader in ("llama_mistral", "llama2_hf"):
            save = self.saved(loader)
            self.reshape(load, save, Target(1, 1), "--loader", loader, "--bf16", "--model-size",
                         "llama3-8B", "--checkpoint-type", "hf", "--tokenizer-model", load)
            state = reference_files.load_file(os.path.join(
                reference_files.iteration_folder(save), "mp_rank_00", "model_optim_rng.pt"))
            self.assertEqual({str(tensor.dtype) for name, tensor in state["model"].items()
                              if hasattr(tensor, "dtype") and tensor.numel()}, {"torch.bfloat16"})

    def test_other_plug_ins_are_refused_by_name(self):
        self.assertIn("--bf16: expected only together", self.refuse("gpt_tp1pp1_fp32", "--bf16"))
        for flag, value in (("--loader", "llava"), ("--saver", "hf_llava"), ("--saver", "llava")):
            self.assertIn(f"{flag} {value}", self.refuse("gpt_tp1pp1_fp32", flag, value))
        self.assertIn("mixtral_hf", self.refuse("gpt_tp1pp1_fp32", "--loader", "mixtral_hf"))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    if "--full" in sys.argv:
        FULL = True
        sys.argv.remove("--full")
    add_cases()
    unittest.main()
