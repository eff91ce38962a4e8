#!/usr/bin/env python3
"""verify resume finds what real megatron-core runs did not take up from a checkpoint.

megatron_core_resumes.py BIN [unittest arguments]
pretrain_gpt saves checkpoints; megatron-core (PyPI) continues from them with its own model, optimizer,
scheduler and samples, and with one thing wrong, and prints the lines that Megatron prints. verify
resume must name that one thing. MEG_RESUME_RUNS=60 adds as many healthy resumes of random
configurations, none of which may be called wrong.
"""
import argparse
import datetime
import functools
import json
import logging
import os
import random
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
    from reference import files as reference_files
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

BIN = ""
LENGTH, IDS, ROWS, BATCH, MICRO, SAVED, ITERATIONS, STEPS = 16, 60, 64, 4, 2, 6, 40, 4


def losses_of(mask, output):
    """As pretrain_gpt.py has it."""
    loss = torch.sum(output.view(-1).float() * mask.view(-1).float())
    tokens = mask.sum().clone().detach().to(torch.int)
    return loss, tokens, torch.cat([loss.clone().detach().view(1), tokens.view(1)])


def forward_step(batches, model):
    tokens, labels = next(batches)
    positions = torch.arange(LENGTH).expand(len(tokens), LENGTH)
    output = model(tokens, positions, None, labels=labels)
    return output, functools.partial(losses_of, torch.ones_like(labels))


class Resumed:
    """What Megatron's pretrain() builds of a checkpoint, and the lines that it prints. fault: the one
    thing that is wrong."""

    def __init__(self, folder, flags, fault):
        self.flags, self.fault = flags, fault
        state = self.state_of(folder, SAVED)
        args = argparse.Namespace(**(vars(state["args"]) | {"transformer_impl": "local"}))
        self.args, self.state, self.points = args, state, []
        weights = self.state_of(folder, fault.get("weights", SAVED))["model"]
        module = core.make_model(args, is_fp16=args.fp16)
        module.load_state_dict(weights)
        config = module.config
        self.model = DistributedDataParallel(config, DistributedDataParallelConfig(
            grad_reduce_in_fp32=args.bf16), module)
        self.optimizer = get_megatron_optimizer(OptimizerConfig(
            optimizer="adam", lr=args.lr, min_lr=args.min_lr, weight_decay=args.weight_decay, clip_grad=args.clip_grad,
            fp16=args.fp16, bf16=args.bf16, initial_loss_scale=args.initial_loss_scale, min_loss_scale=1.0,
            loss_scale_window=args.loss_scale_window, hysteresis=args.hysteresis,
            params_dtype=torch.float16 if args.fp16 else torch.bfloat16 if args.bf16 else torch.float32), [self.model])
        config.finalize_model_grads_func = finalize_model_grads
        config.grad_scale_func = self.optimizer.scale_loss
        self.scheduler = self.make_scheduler(args)
        if not fault.get("no_optimizer"):
            self.load_optimizer(state["optimizer"])
        if not fault.get("no_schedule"):
            self.scheduler.load_state_dict(state["opt_param_scheduler"])
        self.spoil()

    @staticmethod
    def state_of(folder, iteration):
        path = os.path.join(folder, f"iter_{iteration:07d}", "mp_rank_00", "model_optim_rng.pt")
        return torch.load(path, map_location="cpu", weights_only=False)

    def make_scheduler(self, args):
        decay = self.fault.get("weight_decay", args.weight_decay)
        return OptimizerParamScheduler(
            self.optimizer, 0.0, args.lr, args.min_lr, 2 * BATCH, self.fault.get("decay_iters", ITERATIONS) * BATCH,
            args.lr_decay_style, decay, decay, ITERATIONS * BATCH, "constant",
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
            yield sample["tokens"], sample["labels"]

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

    def write_curves(self, folder):
        """As training_log has them."""
        writer = SummaryWriter(folder)
        for iteration, consumed, values in self.points:
            for tag, value in values.items():
                writer.add_scalar(tag, value, iteration)
                writer.add_scalar(f"{tag} vs samples", value, consumed)
        writer.close()

    def lines(self, cwd, steps=STEPS):
        """training_log's, of --log-interval 1."""
        consumed, samples, lines = self.state["args"].consumed_train_samples, self.samples(cwd), []
        for iteration in range(SAVED + 1, SAVED + 1 + steps):
            loss, done, norm = self.step(samples, BATCH)
            consumed += BATCH
            line = f" [{datetime.datetime.now()}] iteration {iteration:8d}/{ITERATIONS:8d} |"
            line += f" consumed samples: {consumed:12d} | elapsed time per iteration (ms): 12.3 |"
            line += f" learning rate: {self.optimizer.param_groups[0]['lr']:.6E} | global batch size: {BATCH:5d} |"
            line += f" lm loss: {loss:.6E} |" if done else ""
            line += f" loss scale: {self.optimizer.get_loss_scale().item():.1f} |"
            line += f" grad norm: {norm:.3f} |" if done else ""
            self.points.append((iteration, consumed, {
                "learning-rate": self.optimizer.param_groups[0]["lr"], "batch-size": BATCH, "lm loss": loss,
                "loss-scale": self.optimizer.get_loss_scale().item(), "grad-norm": norm}))
            lines.append(line + f" number of skipped iterations: {int(not done):3d} | number of nan iterations:   0 |")
        return "\n".join(lines) + "\n"


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

    def checkpoint(self, *flags, data):
        """Two checkpoints of a run of pretrain_gpt with these flags; made once."""
        key = (flags, tuple(data["blend"]), data["split"], data["seed"])
        if key in self.saved:
            return self.saved[key]
        folder = os.path.join(self.folder, f"ckpt{len(self.saved)}")
        self.run_program(
            "pretrain_gpt", *("--num-layers 2 --hidden-size 32 --ffn-hidden-size 64 --num-attention-heads 4 "
                              "--hidden-dropout 0 --attention-dropout 0 --lr 0.01 --min-lr 0.001 --lr-decay-style cosine "
                              "--lr-warmup-iters 2 --weight-decay 0.3 --log-interval 1 --eval-iters 0 --device cpu "
                              "--tokenizer-type NullTokenizer --megatron-version core_v0.16.1").split(),
            "--vocab-size", IDS, "--make-vocab-size-divisible-by", ROWS, "--seq-length", LENGTH,
            "--max-position-embeddings", LENGTH, "--micro-batch-size", MICRO, "--global-batch-size", BATCH,
            "--train-iters", ITERATIONS, "--data-path", *data["blend"], "--split", data["split"], "--seed", data["seed"],
            "--data-cache-path", os.path.join(self.folder, "cache"), "--save", folder, "--save-interval", 3,
            "--exit-interval", SAVED, *flags)
        self.saved[key] = folder
        return folder

    DATA = {"blend": ["a"], "split": "90,8,2", "seed": 7}

    def judge(self, fault, *flags, judged=(), data=None):
        data = data or self.DATA
        folder = self.checkpoint(*flags, data=data)
        with open("log", "w", encoding="utf-8") as file:
            file.write(Resumed(folder, data, fault).lines(self.folder))
        done = self.run_program("verify", "resume", "--load", folder, "--log", "log", "--device", "cpu", "--json", *judged,
                                codes=(0, 1))
        answer = json.loads(done.stdout)
        self.assertEqual(answer["equal"], done.returncode == 0)
        return answer

    def expect(self, name, fault, *flags, judged=(), data=None, cause=None):
        """The fault is the best of what fits."""
        answer = self.judge(fault, *flags, judged=judged, data=data)
        worst = max(figure["misfit"] for figure in answer["figures"])
        self.assertFalse(answer["equal"], f"{name}: {answer['figures']}")
        found = answer["hypotheses"][0]
        print(f"{name}: misfit {worst:.3g}; {answer['causes'] or answer['likely_cause']}: {found['misfit']:.2g}")
        self.assertEqual(found["name"], name, answer["causes"])
        self.assertTrue(found["fits"] or answer["likely_cause"] == name)
        if cause:
            self.assertIn(cause, found["cause"])

    def test_a_healthy_resume_is_equal(self):
        for flags in ((), ("--bf16",), ("--fp16", "--initial-loss-scale", "65536", "--loss-scale-window", "3")):
            with self.subTest(flags):
                answer = self.judge({}, *flags)
                print(f"healthy {flags}: {max(figure['misfit'] for figure in answer['figures']):.2g}")
                self.assertTrue(answer["equal"], answer["figures"])

    def test_curves_are_as_good_as_lines(self):
        folder = self.checkpoint(data=self.DATA)
        for number, (fault, causes) in enumerate((({}, []), ({"zeroed": ("exp_avg",)}, ["exp-avg-zeroed"]))):
            resumed = Resumed(folder, self.DATA, fault)
            resumed.lines(self.folder)
            resumed.write_curves(f"curves{number}")
            done = self.run_program("verify", "resume", "--load", folder, "--tensorboard", f"curves{number}", "--device",
                                    "cpu", "--json", codes=(1 if causes else 0,))
            self.assertEqual(json.loads(done.stdout)["causes"], causes)

    def test_lost_optimizers_are_found(self):
        self.expect("optimizer-not-loaded", {"no_optimizer": True, "no_schedule": True})
        self.expect("optimizer-state-lost", {"no_optimizer": True})
        self.expect("moments-zeroed", {"zeroed": ("exp_avg", "exp_avg_sq")})
        self.expect("exp-avg-zeroed", {"zeroed": ("exp_avg",)})
        self.expect("exp-avg-sq-zeroed", {"zeroed": ("exp_avg_sq",)})
        self.expect("step-counter-restarted", {"zeroed": ("step",)})

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
            self.expect("samples-shifted", {"shift": shift}, cause=f"{abs(shift)} {'later' if shift > 0 else 'earlier'}")
        self.expect("other-seed", {"data": {"seed": 1234}})
        self.expect("other-split", {"data": {"split": "99,1,0"}})
        blended = {"blend": ["3", "a", "1", "b"], "split": "90,8,2", "seed": 7}
        self.expect("other-blend", {"data": {"blend": ["1", "a", "1", "b"]}}, data=blended, cause="equal weights")

    def test_other_weights_are_found(self):
        self.expect("weights-of-another-iteration", {"weights": 3}, cause="iteration 3")
        self.expect("loss-scale-reset", {"scale": True}, "--fp16", "--initial-loss-scale", "65536", "--loss-scale-window", "2")

    def test_masters_made_from_16_bits_are_below_their_rounding(self):
        """As docs/verify_resume.md says of them."""
        answer = self.judge({"masters": True}, "--bf16")
        self.assertTrue(answer["equal"])
        self.assertIn("masters", " ".join(answer["never_tried"]))

    def test_no_random_healthy_resume_is_called_wrong(self):
        runs = int(os.environ.get("MEG_RESUME_RUNS", "0"))
        chooser = random.Random(runs)
        for number in range(runs):
            flags = list(chooser.choice([(), ("--bf16",), ("--fp16", "--initial-loss-scale", "65536", "--loss-scale-window", "3")]))
            flags += chooser.choice([(), ("--swiglu", "--disable-bias-linear"), ("--normalization", "RMSNorm"),
                                     ("--position-embedding-type", "rope"), ("--group-query-attention", "--num-query-groups", 2),
                                     ("--untie-embeddings-and-output-weights",)])
            flags += chooser.choice([(), ("--clip-grad", 0), ("--clip-grad", 0.1)])
            data = {"blend": chooser.choice([["a"], ["b"], ["3", "a", "1", "b"], ["a", "b"]]),
                    "split": chooser.choice(["90,8,2", "100,0,0", "50,50,0"]), "seed": chooser.randrange(1, 10**6)}
            with self.subTest(number=number, flags=flags, data=data):
                answer = self.judge({}, *flags, data=data)
                print(f"{number} {flags}: {max(figure['misfit'] for figure in answer['figures']):.2g}")
                self.assertTrue(answer["equal"], answer["figures"])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BIN = os.path.abspath(sys.argv.pop(1))
    core.start_without_gpu()
    core.call_types_cuda()
    unittest.main()
