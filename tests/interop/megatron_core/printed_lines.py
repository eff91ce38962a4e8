"""The lines and curves of a run, by Megatron's own training_log(): the function of 0.19.2's training.py, which
scripts/setup.sh unpacks, with what it calls of a running job replaced."""
import argparse
import ast
import datetime
import os
from unittest import mock

import torch

SOURCE = os.path.join(os.environ.get("MEG_DEPS", os.path.expanduser("~/.cache/libmeg")),
                      "megatron-core-0.19.2/megatron/training/training.py")


class Args(argparse.Namespace):
    """Flags that are not given are off."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class TrainingLog:
    """One per run. writer: of torch.utils.tensorboard, or None."""

    def __init__(self, train_iters, log_interval=1, writer=None):
        self.args = Args(train_iters=train_iters, log_interval=log_interval, tensorboard_log_interval=1,
                         timing_log_level=0, data_parallel_size=1, gtp_weight_remat_size=1, world_size=1,
                         skipped_train_samples=0, micro_batch_size=1, log_loss_scale_to_tensorboard=True)
        self.lines, self.sums, self.is_first, self.batch = [], {}, True, 0
        timer = mock.Mock()
        timer.elapsed.return_value = 0.0123
        timers = mock.Mock(side_effect=lambda name: timer)
        with open(SOURCE, encoding="utf-8") as file:
            module = ast.parse(file.read())
        functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "training_log"]
        names = {"torch": torch, "datetime": datetime.datetime, "has_rl_utils": False, "one_logger_utils": mock.Mock(),
                 "get_args": lambda: self.args, "get_timers": lambda: timers, "get_tensorboard_writer": lambda: writer,
                 "get_wandb_writer": lambda: None, "get_one_logger": lambda: None, "get_energy_monitor": lambda: None,
                 "get_num_microbatches": lambda: self.batch, "num_floating_point_operations": lambda *a, **k: 0.0,
                 "reduce_max_stat_across_model_parallel_group": lambda value, group=None: value,
                 "print_rank_last": self.lines.append}
        exec(compile(ast.Module(functions, []), SOURCE, "exec"), names)
        self.training_log = names["training_log"]

    def step(self, iteration, consumed, batch, loss, learning_rate, loss_scale, grad_norm, skipped=False):
        """As train() calls it after each."""
        self.args.consumed_train_samples, self.batch = consumed, batch
        self.training_log({"lm loss": torch.tensor([loss])}, self.sums, learning_rate, iteration, loss_scale,
                          report_memory_flag=False, skipped_iter=int(skipped), grad_norm=None if skipped else grad_norm,
                          params_norm=None, num_zeros_in_grad=None, max_attention_logit=None,
                          is_first_iteration=self.is_first)
        self.is_first = False

    def text(self):
        return "".join(line + "\n" for line in self.lines)
