#!/usr/bin/env python3
"""verify resume finds what real megatron-core runs did not take up from a checkpoint.

megatron_core_resumes.py BIN [unittest arguments]
pretrain_gpt saves checkpoints; megatron-core (PyPI) continues from them with its own model, optimizer,
scheduler, batches and samples, and with one thing wrong, and Megatron's training_log() prints its lines.
verify resume must name that one thing. MEG_RESUME_RUNS=60 adds as many healthy resumes of random
configurations and layouts, none of which may be called wrong.
"""
import argparse
import functools
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))

try:
    import numpy
    import torch
    from megatron.core import num_microbatches_calculator as batches_of_core
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
    from megatron.core.datasets.utils import get_blend_from_list
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
    from megatron.core.pipeline_parallel.schedules import forward_backward_no_pipelining
    from megatron.core.tokenizers import MegatronTokenizer
    from torch.utils.tensorboard import SummaryWriter

    from megatron_core import models as core
    from megatron_core import printed_lines
    from reference import cases, files as reference_files
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

BIN = ""
LENGTH, IDS, ROWS, BATCH, MICRO, SAVED, ITERATIONS, STEPS = 16, 60, 64, 4, 2, 6, 40, 4
LENGTH_OF_RUN = ("--train-iters", ITERATIONS, "--lr-warmup-iters", 2)
FP16 = ("--fp16", "--initial-loss-scale", "65536", "--loss-scale-window", "3")
# Megatron takes no other with a ramp-up, which here ends two steps after the checkpoint.
SAMPLES_OF_RUN = ("--train-samples", ITERATIONS * BATCH, "--lr-warmup-samples", 2 * BATCH)
RAMP_UP = ("--rampup-batch-size", 2, 2, 16)
LAYOUTS = [[], [("--target-tensor-parallel-size", 2)], [("--target-pipeline-parallel-size", 2)],
           [("--target-tensor-parallel-size", 2, "--target-pipeline-parallel-size", 2)],
           [("--target-optimizer", "distributed", "--target-data-parallel-size", 2)],
           [("--target-format", "torch_dist")],
           [("--target-tensor-parallel-size", 2, "--target-optimizer", "distributed", "--target-data-parallel-size", 2),
            ("--target-format", "torch_dist")]]


def forward_step(batches, model):
    tokens, labels = next(batches)
    positions = torch.arange(LENGTH).expand(len(tokens), LENGTH)
    output = model(tokens, positions, None, labels=labels)
    return output, functools.partial(core.loss_func, torch.ones_like(labels))


class Resumed:
    """What Megatron's pretrain() builds of a checkpoint, and the lines that it prints. fault: the one
    thing that is wrong."""

    def __init__(self, folder, flags, fault):
        self.flags, self.fault = flags, fault
        state = self.state_of(folder, SAVED)
        args = argparse.Namespace(**(vars(state["args"]) | {"transformer_impl": "local"}))
        self.args, self.state = args, state
        weights = self.state_of(folder, fault.get("weights", SAVED))["model"]
        module = core.make_model(args, is_fp16=args.fp16)
        module.load_state_dict(weights)
        config = module.config
        self.model = DistributedDataParallel(config, DistributedDataParallelConfig(
            grad_reduce_in_fp32=args.bf16), module)
        self.optimizer = get_megatron_optimizer(OptimizerConfig(
            optimizer="adam", lr=args.lr, min_lr=args.min_lr, weight_decay=args.weight_decay, clip_grad=args.clip_grad,
            adam_beta1=args.adam_beta1, adam_beta2=args.adam_beta2, adam_eps=args.adam_eps,
            fp16=args.fp16, bf16=args.bf16, initial_loss_scale=args.initial_loss_scale, min_loss_scale=1.0,
            loss_scale_window=args.loss_scale_window, hysteresis=args.hysteresis,
            params_dtype=torch.float16 if args.fp16 else torch.bfloat16 if args.bf16 else torch.float32), [self.model])
        config.finalize_model_grads_func = finalize_model_grads
        config.grad_scale_func = self.optimizer.scale_loss
        self.scheduler = self.make_scheduler(args)
        if not fault.get("no_optimizer"):
            self.load_optimizer(self.state_of(folder, fault.get("optimizer_of", SAVED))["optimizer"])
        if not fault.get("no_schedule"):
            self.scheduler.load_state_dict(state["opt_param_scheduler"])
        self.spoil()

    @staticmethod
    def state_of(folder, iteration):
        path = os.path.join(folder, f"iter_{iteration:07d}", "mp_rank_00", "model_optim_rng.pt")
        return torch.load(path, map_location="cpu", weights_only=False)

    def make_scheduler(self, args):
        decays = [self.fault.get("weight_decay", args.weight_decay if decay is None else decay)
                  for decay in (args.start_weight_decay, args.end_weight_decay)]
        return OptimizerParamScheduler(
            self.optimizer, 0.0, args.lr, args.min_lr, 2 * BATCH, self.fault.get("decay_iters", ITERATIONS) * BATCH,
            args.lr_decay_style, *decays, ITERATIONS * BATCH, args.weight_decay_incr_style,
            use_checkpoint_opt_param_scheduler=False,
            override_opt_param_scheduler="decay_iters" in self.fault or "weight_decay" in self.fault)

    def load_optimizer(self, saved):
        # apex and Transformer Engine keep the step in the groups, torch's AdamW with each parameter.
        inner = saved.get("optimizer", saved)
        for entry in inner["state"].values():
            entry["step"] = torch.tensor(float(inner["param_groups"][0]["step"]))
        self.optimizer.load_state_dict(saved)

    def spoil(self):
        inner = self.optimizer.chained_optimizers[0]
        for entry in inner.optimizer.state.values():
            for kind in ("exp_avg", "exp_avg_sq", "step"):
                if kind in self.fault.get("zeroed", ()):
                    entry[kind].zero_()
        if self.fault.get("masters"):
            inner.reload_model_params()
        if self.fault.get("scale"):
            inner.grad_scaler._scale.fill_(self.args.initial_loss_scale)
            inner.grad_scaler._growth_tracker = 0

    def samples(self, cwd):
        options = self.flags | self.fault.get("data", {})
        tokenizer = MegatronTokenizer.from_pretrained(metadata_path={"library": "null"}, vocab_size=IDS)
        config = GPTDatasetConfig(
            random_seed=options["seed"], sequence_length=LENGTH, blend=get_blend_from_list(options["blend"]),
            split=options["split"], tokenizer=tokenizer, create_attention_mask=False, reset_position_ids=False,
            reset_attention_mask=False, eod_mask_loss=False, mid_level_dataset_surplus=0.005,
            path_to_cache=tempfile.mkdtemp(dir=cwd))
        train = BlendedMegatronDatasetBuilder(GPTDataset, [ITERATIONS * BATCH, 1, 1], lambda: True, config).build()[0]
        for number in range(self.state["args"].consumed_train_samples + self.fault.get("shift", 0), ITERATIONS * BATCH):
            sample = train[number]
            yield tuple((sample[name] + self.fault.get("ids", 0)) % ROWS for name in ("tokens", "labels"))

    def step(self, samples, batch):
        batches = []
        for _ in range(batch // MICRO):
            pairs = [next(samples) for _ in range(MICRO)]
            batches.append(tuple(torch.stack(part) for part in zip(*pairs)))
        self.model.zero_grad_buffer()
        self.optimizer.zero_grad()
        sums = forward_backward_no_pipelining(
            forward_step_func=forward_step, data_iterator=iter(batches), model=self.model,
            num_microbatches=len(batches), seq_length=LENGTH, micro_batch_size=MICRO)
        total = torch.vstack(sums).sum(dim=0)
        done, norm, _ = self.optimizer.step()
        if done:
            self.scheduler.step(batch)
        return (total[0] / total[1]).item(), done, norm

    def lines(self, cwd, steps=STEPS, interval=1, curves=None):
        """What training_log() prints with this --log-interval; curves: the folder of its event file."""
        writer = SummaryWriter(curves) if curves else None
        log = printed_lines.TrainingLog(ITERATIONS, interval, writer)
        consumed, samples = self.state["args"].consumed_train_samples, self.samples(cwd)
        batches_of_core.destroy_num_microbatches_calculator()
        batches_of_core.init_num_microbatches_calculator(0, self.args.rampup_batch_size, BATCH, MICRO, 1)
        for iteration in range(SAVED + 1, SAVED + 1 + steps):
            batches_of_core.update_num_microbatches(consumed)
            batch = batches_of_core.get_current_global_batch_size()
            loss, done, norm = self.step(samples, batch)
            consumed += batch
            log.step(iteration, consumed, batch, loss, self.optimizer.param_groups[0]["lr"],
                     self.optimizer.get_loss_scale().item(), norm, skipped=not done)
        if writer:
            writer.close()
        return log.text()


class MegatronCoreResumes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="meg-test-")
        cls.folder = cls.temporary.name
        chooser = numpy.random.default_rng(1)
        for name in "ab":
            builder = IndexedDatasetBuilder(os.path.join(cls.folder, name + ".bin"), dtype=numpy.uint16)
            for length in chooser.integers(3, 60, 120):
                builder.add_item(torch.tensor(chooser.integers(0, IDS - 1, length)))
                builder.end_document()
            builder.finalize(os.path.join(cls.folder, name + ".idx"))
        cls.saved = {}
        os.chdir(cls.folder)

    @classmethod
    def tearDownClass(cls):
        os.chdir("/")
        cls.temporary.cleanup()

    def run_program(self, program, *arguments, codes=(0,)):
        done = subprocess.run([os.path.join(BIN, program), *map(str, arguments)], capture_output=True, text=True,
                              cwd=self.folder, timeout=300)
        self.assertIn(done.returncode, codes, done.stdout[-2000:] + done.stderr)
        return done

    def checkpoint(self, *flags, data, length=LENGTH_OF_RUN):
        """Two checkpoints of a run of pretrain_gpt with these flags; made once."""
        key = (flags, tuple(data["blend"]), data["split"], data["seed"], length)
        if key in self.saved:
            return self.saved[key]
        folder = os.path.join(self.folder, f"ckpt{len(self.saved)}")
        self.run_program(
            "pretrain_gpt", *("--num-layers 2 --hidden-size 32 --ffn-hidden-size 64 --num-attention-heads 4 "
                              "--hidden-dropout 0 --attention-dropout 0 --lr 0.01 --min-lr 0.001 "
                              "--lr-decay-style cosine --weight-decay 0.3 --log-interval 1 --eval-iters 0 --device cpu "
                              "--tokenizer-type NullTokenizer --megatron-version core_v0.16.1").split(),
            "--vocab-size", IDS, "--make-vocab-size-divisible-by", ROWS // 2, "--seq-length", LENGTH,
            "--max-position-embeddings", LENGTH, "--micro-batch-size", MICRO, "--global-batch-size", BATCH,
            *length, "--data-path", *data["blend"], "--split", data["split"], "--seed", data["seed"],
            "--data-cache-path", os.path.join(self.folder, "cache"), "--save", folder, "--save-interval", 3,
            "--exit-interval", SAVED, *flags)
        self.saved[key] = folder
        return folder

    DATA = {"blend": ["a"], "split": "90,8,2", "seed": 7}

    def relaid(self, folder, layout):
        """The same checkpoint as other ranks would have saved it."""
        for flags in layout:
            source, folder = folder, tempfile.mkdtemp(dir=self.folder)
            self.run_program("checkpoint_util", "--load-dir", source, "--save-dir", folder, *flags)
        return folder

    def judge(self, fault, *flags, judged=(), data=None, length=LENGTH_OF_RUN, interval=1, layout=()):
        """layout: in which verify resume finds the checkpoint."""
        data = data or self.DATA
        folder = self.checkpoint(*flags, data=data, length=length)
        self.write_log(folder, fault, data, interval)
        self.found_in = self.relaid(folder, layout)
        return self.answer_about(self.found_in, *judged)

    def write_log(self, folder, fault, data, interval=1):
        with open("log", "w", encoding="utf-8") as file:
            file.write(Resumed(folder, data, fault).lines(self.folder, interval=interval))

    def answer_about(self, folder, *judged):
        done = self.run_program("verify", "resume", "--load", folder, "--log", "log", "--device", "cpu", "--json",
                                *judged, codes=(0, 1))
        answer = json.loads(done.stdout)
        self.assertEqual(answer["equal"], done.returncode == 0)
        return answer

    def expect(self, name, fault, *flags, cause=None, **options):
        """The fault is the best of what fits."""
        answer = self.judge(fault, *flags, **options)
        worst = max(figure["misfit"] for figure in answer["figures"])
        self.assertFalse(answer["equal"], f"{name}: {answer['figures']}")
        found = answer["hypotheses"][0]
        print(f"{name}: misfit {worst:.3g}; {answer['causes'] or answer['likely_cause']}: {found['misfit']:.2g}")
        self.assertEqual(found["name"], name, answer["causes"])
        self.assertTrue(found["fits"] or answer["likely_cause"] == name)
        if cause:
            self.assertIn(cause, found["cause"])

    def test_a_healthy_resume_is_equal(self):
        for flags in ((), ("--bf16",), FP16):
            with self.subTest(flags):
                self.expect_equal(f"healthy {flags}", *flags)

    def expect_equal(self, name, *flags, lines=STEPS, **options):
        answer = self.judge({}, *flags, **options)
        print(f"{name}: {max(figure['misfit'] for figure in answer['figures']):.2g}")
        self.assertTrue(answer["equal"], answer["figures"])
        # A line that is left out is in no comparison.
        self.assertEqual(len({figure["iteration"] for figure in answer["figures"]}), lines)
        # Of all sequences of the batch, so that no margin hides anything.
        batch = next(figure["log"] for figure in answer["figures"] if figure["figure"] == "global batch size")
        sampled = self.answer_about(self.found_in, "--batch-samples", int(batch))
        self.assertEqual((sampled["equal"], sampled["sampled"]["margin"]), (True, 0), sampled["figures"])

    def test_lines_about_several_steps_are_compared(self):
        """The first line of a run is about one step, the second about that step, too."""
        for interval, lines in ((2, 3), (3, 2), (4, 2)):
            with self.subTest(interval):
                self.expect_equal(f"--log-interval {interval}", interval=interval, lines=lines)

    def test_whole_logs_of_megatron_are_read(self):
        """A run, one that went on from its checkpoint, and one that computed ten steps again."""
        text = ""
        for begin, end in ((0, 60), (60, 100), (90, 120)):
            log = printed_lines.TrainingLog(120, 10)
            for iteration in range(begin + 1, end + 1):
                log.step(iteration, 4 * iteration, 4, 5 - 0.01 * iteration, 0.001, 1.0, 0.5)
            text += f"  successfully loaded checkpoint from ckpt [ t 1/1, p 1/1 ] at iteration {begin}\n" if begin else ""
            text += log.text()
        with open("log", "w", encoding="utf-8") as file:
            file.write(text)
        found = json.loads(self.run_program("verify", "run", "log", "--json", codes=(1,)).stdout)["findings"]
        self.assertEqual([(each["kind"], each["first_iteration"], each["last_iteration"]) for each in found],
                         [("repeated", 91, 100)])
        # Both have a line about 91 to 100, the third run as its second one.
        self.assertIn("differ by 0.0e+00 at most, relative, in 1 line", found[0]["text"])

    def test_every_layout_of_a_checkpoint_is_judged(self):
        for layout in LAYOUTS:
            with self.subTest(layout):
                self.expect_equal(f"layout {layout}", "--bf16", layout=layout)
                answer = self.judge({"zeroed": ("exp_avg",)}, layout=layout)
                self.assertEqual(answer["causes"], ["exp-avg-zeroed"])

    def test_ramped_up_batches_are_judged(self):
        self.expect_equal("--rampup-batch-size", *RAMP_UP, length=SAMPLES_OF_RUN)
        self.expect("exp-avg-zeroed", {"zeroed": ("exp_avg",)}, *RAMP_UP, length=SAMPLES_OF_RUN)

    def test_a_run_of_megatron_that_resumed_is_equal(self):
        """The oracle's: pretrain() of 6ef5bdc, in 20 steps and in 10 after 10."""
        folder = os.path.join(cases.SHARED, "oracle/training")
        for run in ("gpt_fp32", "gpt_fp32_resumed"):
            with open(os.path.join(folder, run, "log.json"), encoding="utf-8") as file:
                steps = json.load(file)["iterations"]
            log = printed_lines.TrainingLog(20)
            for step in steps:
                log.step(step["iteration"], step["consumed_train_samples"], 8, step["lm_loss"], step["lr_logged"],
                         step["loss_scale_logged"], step["grad_norm"])
            with open("log", "w", encoding="utf-8") as file:
                file.write(log.text())
            done = self.run_program("verify", "resume", "--load", os.path.join(folder, "gpt_fp32/mid"), "--log", "log",
                                    "--data-path", os.path.join(folder, "data/tiny"), "--vocab-file",
                                    os.path.join(folder, "gpt2-vocab.json"), "--merge-file",
                                    os.path.join(folder, "gpt2-merges.txt"), "--steps", 10, "--device", "cpu", "--json")
            answer = json.loads(done.stdout)
            self.assertEqual({figure["iteration"] for figure in answer["figures"]}, set(range(11, 21)))
            print(f"{run}: {max(figure['misfit'] for figure in answer['figures']):.2g}")

    def test_curves_are_as_good_as_lines(self):
        folder = self.checkpoint(data=self.DATA)
        for number, (fault, causes) in enumerate((({}, []), ({"zeroed": ("exp_avg",)}, ["exp-avg-zeroed"]))):
            Resumed(folder, self.DATA, fault).lines(self.folder, curves=f"curves{number}")
            done = self.run_program("verify", "resume", "--load", folder, "--tensorboard", f"curves{number}",
                                    "--device", "cpu", "--json", codes=(1 if causes else 0,))
            self.assertEqual(json.loads(done.stdout)["causes"], causes)

    def test_lost_optimizers_are_found(self):
        self.expect("optimizer-not-loaded", {"no_optimizer": True, "no_schedule": True})
        self.expect("optimizer-state-lost", {"no_optimizer": True})
        self.expect("moments-zeroed", {"zeroed": ("exp_avg", "exp_avg_sq")})
        self.expect("exp-avg-zeroed", {"zeroed": ("exp_avg",)})
        self.expect("exp-avg-sq-zeroed", {"zeroed": ("exp_avg_sq",)})
        self.expect("step-counter-restarted", {"zeroed": ("step",)})
        self.expect("moments-of-another-iteration", {"optimizer_of": 3}, cause="iteration 3")

    def test_other_schedules_are_found(self):
        self.expect("schedule-restarted", {"no_schedule": True})
        self.expect("schedule-of-flags", {"decay_iters": 20},
                    judged=("--lr-decay-iters", 20, "--use-checkpoint-opt_param-scheduler"))
        # megatron-core keeps the rate of a loaded optimizer even so.
        for flag in ("--lr", 0.02), ("--lr-decay-iters", 20):
            self.expect("schedule-of-checkpoint", {}, judged=(*flag, "--override-opt_param-scheduler"))
        self.expect("no-weight-decay", {"weight_decay": 0.0})

    def test_other_samples_are_found(self):
        self.expect("samples-restarted", {"shift": -SAVED * BATCH})
        for shift in (BATCH, -BATCH, 3, -7, 13):
            where = "later" if shift > 0 else "earlier"
            self.expect("samples-shifted", {"shift": shift}, cause=f"{abs(shift)} {where}")
        self.expect("other-seed", {"data": {"seed": 1234}})
        self.expect("other-split", {"data": {"split": "99,1,0"}})
        blended = {"blend": ["3", "a", "1", "b"], "split": "90,8,2", "seed": 7}
        self.expect("other-blend", {"data": {"blend": ["1", "a", "1", "b"]}}, data=blended, cause="equal weights")

    def test_other_weights_are_found(self):
        self.expect("weights-of-another-iteration", {"weights": 3}, cause="iteration 3")
        self.expect("loss-scale-reset", {"scale": True}, *FP16[:-1], "2")

    def test_a_whole_batch_of_samples_tells_as_much_as_its_loss(self):
        whole = {"judged": ("--batch-samples", BATCH)}
        for flags in ((), ("--bf16",), FP16):
            with self.subTest(flags):
                self.assertTrue(self.judge({}, *flags, **whole)["equal"])
        self.expect("weights-of-another-iteration", {"weights": 3}, **whole)
        self.expect("other-seed", {"data": {"seed": 1234}}, **whole)
        self.expect("samples-restarted", {"shift": -SAVED * BATCH}, **whole)
        self.expect("vocabulary-shifted", {"ids": 1}, cause="1 higher", **whole)

    def test_two_faults_at_once_are_found(self):
        self.expect("samples-shifted + exp-avg-zeroed", {"shift": 3, "zeroed": ("exp_avg",)}, cause="3 later")
        self.expect("schedule-restarted + other-seed", {"no_schedule": True, "data": {"seed": 1234}})

    def exchanged(self, kind, size, ranks, *flags):
        """The causes where two of the files that a run loaded have each other's names."""
        right = self.relaid(self.checkpoint(*flags, data=self.DATA), [(f"--target-{kind}-parallel-size", size)])
        wrong = os.path.join(tempfile.mkdtemp(dir=self.folder), "ckpt")
        shutil.copytree(right, wrong)
        reference_files.exchange(*(os.path.join(wrong, f"iter_{SAVED:07d}", f"mp_rank_{rank}") for rank in ranks))
        self.write_log(self.relaid(wrong, [(f"--target-{kind}-parallel-size", 1)]), {}, self.DATA)
        return self.answer_about(right)["causes"]

    def test_exchanged_files_of_ranks_are_found(self):
        for flags in ((), ("--untie-embeddings-and-output-weights",), ("--bf16",)):
            with self.subTest(flags):
                self.assertEqual(self.exchanged("tensor", 2, ("00", "01"), *flags), ["tensor-shards-exchanged"])
        # Layers after six steps differ by less than bf16's rounding.
        for flags in ((), ("--swiglu", "--disable-bias-linear")):
            with self.subTest(flags):
                self.assertEqual(self.exchanged("pipeline", 4, ("00_001", "00_002"), "--num-layers", 4, *flags),
                                 ["pipeline-stages-exchanged"])

    def test_ids_of_another_tokenizer_are_found(self):
        for ids in (1, 4, -2):
            self.expect("vocabulary-shifted", {"ids": ids}, cause=f"{abs(ids)} {'higher' if ids > 0 else 'lower'}")

    def test_copies_of_a_tied_embedding_that_differ_are_named(self):
        one_rank = self.checkpoint(data=self.DATA)
        self.write_log(one_rank, {}, self.DATA)
        folder = self.relaid(one_rank, [("--target-pipeline-parallel-size", 2)])
        path = os.path.join(folder, f"iter_{SAVED:07d}", "mp_rank_00_001", "model_optim_rng.pt")
        state = torch.load(path, weights_only=False)
        state["model"]["output_layer.weight"][3] += 0.5
        torch.save(state, path)
        done = self.run_program("verify", "resume", "--load", folder, "--log", "log", "--device", "cpu", codes=(2,))
        self.assertIn("output_layer.weight: expected the embedding's weights", done.stderr.splitlines()[-1])

    def test_masters_made_from_16_bits_are_below_their_rounding(self):
        """As docs/verify_resume.md says of them."""
        answer = self.judge({"masters": True}, "--bf16")
        self.assertTrue(answer["equal"])
        self.assertIn("masters", " ".join(answer["never_tried"]))

    def test_no_random_healthy_resume_is_called_wrong(self):
        runs = int(os.environ.get("MEG_RESUME_RUNS", "0"))
        chooser = random.Random(runs)
        for number in range(runs):
            flags = list(chooser.choice([(), ("--bf16",), FP16]))
            flags += chooser.choice([(), ("--swiglu", "--disable-bias-linear"), ("--normalization", "RMSNorm"),
                                     ("--position-embedding-type", "rope"),
                                     ("--group-query-attention", "--num-query-groups", 2),
                                     ("--untie-embeddings-and-output-weights",)])
            flags += chooser.choice([(), ("--clip-grad", 0), ("--clip-grad", 0.1)])
            flags += chooser.choice([(), ("--adam-beta2", 0.95, "--adam-eps", 1e-6), ("--lr-decay-style", "linear"),
                                     ("--start-weight-decay", 0.01, "--end-weight-decay", 0.4,
                                      "--weight-decay-incr-style", "linear")])
            ramp_up = chooser.choice([(), RAMP_UP])
            data = {"blend": chooser.choice([["a"], ["b"], ["3", "a", "1", "b"], ["a", "b"]]),
                    "split": chooser.choice(["90,8,2", "100,0,0", "50,50,0"]), "seed": chooser.randrange(1, 10**6)}
            interval, layout = chooser.choice([1, 1, 2]), chooser.choice(LAYOUTS)
            with self.subTest(number=number, flags=flags, data=data, ramp_up=ramp_up, interval=interval, layout=layout):
                self.expect_equal(f"{number} {flags} {ramp_up} {interval} {layout}", *flags, *ramp_up, data=data,
                                  length=SAMPLES_OF_RUN if ramp_up else LENGTH_OF_RUN, interval=interval, layout=layout,
                                  lines=STEPS if interval == 1 else 3)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BIN = os.path.abspath(sys.argv.pop(1))
    core.start_without_gpu()
    core.call_types_cuda()
    unittest.main()
