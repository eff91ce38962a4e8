#!/usr/bin/env python3
"""pretrain_gpt --trace-schedule: the order of a step's passes is Megatron's, and the bytes that ranks send
each other are those of theory.

schedule_trace_test.py PRETRAIN_GPT
"""

import collections
import json
import os
import re
import subprocess
import sys
import types
import unittest

from launched_ranks import ORACLE, TIMEOUT, LaunchedRanks

LAYERS, HIDDEN, SEQUENCE, POSITIONS, MICRO_BATCH, GLOBAL_BATCH = 4, 128, 32, 40, 2, 8
VOCABULARY = 296  # padded
FLOAT, DOUBLE = 4, 8
# Every parameter is a multiple of the 64 elements that gradient buffers pad it to.
MODEL = ["--hidden-size", HIDDEN, "--train-iters", 2, "--eval-iters", 0]


class Shape:
    """What a command line asks for."""

    def __init__(self, flags):
        self.flags = flags.split()
        self.tp = self.number("--tensor-model-parallel-size")
        self.pp = self.number("--pipeline-model-parallel-size")
        self.dp = self.number("DP")
        self.vpp = self.number("--num-virtual-stages-per-pipeline-rank")
        self.sequence_parallel = "--sequence-parallel" in self.flags
        self.distributed = "--use-distributed-optimizer" in self.flags
        self.ranks = self.tp * self.pp * self.dp
        self.micro_batches = GLOBAL_BATCH // MICRO_BATCH // self.dp

    def number(self, flag):
        return int(self.flags[self.flags.index(flag) + 1]) if flag in self.flags else 1

    def command_line(self):
        words = list(self.flags)
        if "DP" in words:
            del words[words.index("DP"):words.index("DP") + 2]
        return words

    def place(self, rank):
        """Tensor, data and pipeline rank."""
        return rank % self.tp, rank // self.tp % self.dp, rank // self.tp // self.dp


SHAPES = [Shape(flags) for flags in (
    "DP 2", "DP 2 --use-distributed-optimizer", "--tensor-model-parallel-size 2",
    "--tensor-model-parallel-size 2 --sequence-parallel", "--pipeline-model-parallel-size 2",
    "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "
    "--num-virtual-stages-per-pipeline-rank 2",
    "DP 2 --pipeline-model-parallel-size 2 --use-distributed-optimizer")]


def expected_bytes(shape, rank, parameters):
    """By group and operation, in a step of fp32 with a tied embedding. parameters: by (t, p)."""
    tensor, _, stage = shape.place(rank)
    is_first, is_last = stage == 0, stage + 1 == shape.pp
    m = shape.micro_batches
    tokens = MICRO_BATCH * SEQUENCE * FLOAT
    hidden = tokens * HIDDEN
    found = collections.Counter()
    # Tensor parallelism: each layer's two blocks, forward and back; the embedding, the output layer and the
    # loss, which takes three numbers of each token.
    if shape.tp > 1:
        layers = LAYERS // shape.pp
        if shape.sequence_parallel:
            found["tensor", "all-gather"] += m * (4 * layers + is_first + is_last) * hidden
            found["tensor", "reduce-scatter"] += m * (4 * layers + is_last) * hidden
            found["tensor", "all-reduce"] += m * (is_first * hidden + is_last * 3 * tokens)
            # Each rank has a part of the gradient of norms and of the biases after a sum.
            found["tensor", "all-reduce"] += (6 * layers + 2 * is_last) * HIDDEN * FLOAT
        else:
            found["tensor", "all-reduce"] += m * (
                (4 * layers + is_first + is_last) * hidden + is_last * 3 * tokens)
    if shape.pp > 1:
        # Between two chunks of the model hidden states go forward and their gradients back.
        message = hidden // (shape.tp if shape.sequence_parallel else 1)
        sent, received = shape.vpp - is_last, shape.vpp - is_first
        found["pipeline", "send"] += m * sent * message
        found["pipeline", "receive"] += m * received * message
        found["pipeline gradients", "send"] += m * received * message
        found["pipeline gradients", "receive"] += m * sent * message
        found["pipeline", "broadcast"] += m * 2 * DOUBLE  # losses and tokens
        found["embedding", "all-reduce"] += VOCABULARY // shape.tp * HIDDEN * FLOAT
    model_bytes = parameters[tensor, stage] * FLOAT
    if shape.dp > 1:
        found["data", "all-gather"] += shape.dp * m * 2 * DOUBLE  # losses and tokens
        if shape.distributed:
            found["data", "reduce-scatter"] += model_bytes
            found["data", "all-gather"] += model_bytes
            found["data", "all-reduce"] += 2 * DOUBLE  # the gradient norm's sums
        else:
            found["data", "all-reduce"] += model_bytes
    if shape.tp * shape.pp > 1:
        found["model", "all-reduce"] += 2 * DOUBLE
    return {key: value for key, value in found.items() if value}


def passes(events, rank):
    """(1 + chunk) of forward and -(1 + chunk) of backward passes, in their order, and micro-batches."""
    found = []
    for event in sorted((event for event in events if event["pid"] == rank), key=lambda e: e["ts"]):
        number = event["args"].get("chunk", 0) + 1
        for name, sign in (("forward", 1), ("backward", -1)):
            if name in event["name"].split(" and "):
                found.append((sign * number, event["args"]["micro_batch"]))
    return found


class ScheduleTrace(LaunchedRanks):
    program = os.path.abspath(sys.argv[1])

    def trace(self, shape):
        file = self.folder / "trace.json"
        out = self.train(shape.ranks, *MODEL, *shape.command_line(), "--make-vocab-size-divisible-by",
                         74 // shape.tp, "--trace-schedule", file)
        parameters = {(int(t), int(p)): int(count) for t, p, count in re.findall(
            r"model parallel rank \((\d+), (\d+)\): (\d+)", out)}
        events = json.loads(file.read_text())["traceEvents"]
        self.assertEqual([event["pid"] for event in events if event["name"] == "process_name"],
                         list(range(shape.ranks)))
        return [event for event in events if event["ph"] == "X"], parameters

    def test_the_bytes_of_a_step_are_those_of_theory(self):
        for shape in SHAPES:
            with self.subTest(shape=" ".join(shape.flags)):
                events, parameters = self.trace(shape)
                for rank in range(shape.ranks):
                    found = collections.Counter()
                    for event in events:
                        if event["pid"] == rank and event["cat"] == "communication":
                            arguments = event["args"]
                            found[arguments["group"], event["name"]] += arguments["bytes"]
                    self.assertEqual(dict(found), expected_bytes(shape, rank, parameters), rank)

    def test_stages_take_their_steps_in_megatrons_order(self):
        try:
            from megatron.core.pipeline_parallel import schedules
            from megatron.core.transformer.cuda_graphs import convert_schedule_table_to_order
        except ImportError as error:
            self.skipTest(str(error))
        for flags in ("--pipeline-model-parallel-size 2",
                      "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
                      "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
                      "--num-layers 8 --global-batch-size 16",
                      "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
                      "--global-batch-size 10 --microbatch-group-size-per-virtual-pipeline-stage 3"):
            shape = Shape(flags)
            shape.micro_batches = shape.number("--global-batch-size") // MICRO_BATCH or 4
            group = max(shape.pp, shape.number("--microbatch-group-size-per-virtual-pipeline-stage"))
            with self.subTest(flags=flags):
                events, _ = self.trace(shape)
                table = schedules.get_schedule_table(shape.micro_batches, shape.vpp, group)
                for rank in range(shape.ranks):
                    stage = types.SimpleNamespace(
                        pp_group=types.SimpleNamespace(size=lambda: shape.pp,
                                                       rank=lambda: rank),  # noqa: B023
                        virtual_pipeline_model_parallel_size=shape.vpp if shape.vpp > 1 else None)
                    _, _, warmup, _ = schedules.get_pp_rank_microbatches(
                        shape.micro_batches, shape.vpp, group, p2p_communicator=stage)
                    order = convert_schedule_table_to_order(warmup, shape.vpp, table)
                    found = passes(events, rank)
                    # After the last of all chunks the loss goes back at once.
                    at_once = -shape.vpp if rank + 1 == shape.ranks else None
                    self.assertEqual([n for n, _ in found if n != at_once],
                                     [n for n in order if n != at_once])
                    # Each chunk sees the micro-batches in their order, both ways.
                    for number in set(order):
                        self.assertEqual([i for n, i in found if n == number],
                                         list(range(shape.micro_batches)))

    def test_a_trace_shows_what_waits_for_what(self):
        shape = Shape("--pipeline-model-parallel-size 2")
        events, _ = self.trace(shape)
        for rank in range(2):
            own = sorted((event for event in events
                          if event["pid"] == rank and "micro_batch" in event["args"]),
                         key=lambda event: event["ts"])
            for one, next_one in zip(own, own[1:]):
                self.assertGreaterEqual(next_one["ts"], one["ts"] + one["dur"])
            self.assertEqual({event["name"] for event in events if event["pid"] == rank and
                              event["cat"] == "computation"} - {"reduce gradients", "optimizer"},
                             {"forward", "backward"} if rank == 0 else {"forward and backward"})
        ends = {event["args"]["micro_batch"]: event["ts"] + event["dur"]
                for event in events if event["name"] == "forward"}
        for event in events:
            if event["name"] == "forward and backward":
                self.assertGreater(event["ts"] + event["dur"], ends[event["args"]["micro_batch"]])

    def test_mistakes_are_named(self):
        def run(*flags):
            return subprocess.run(self.command("--train-iters", 1, *flags), cwd=ORACLE, text=True,
                                  capture_output=True, timeout=TIMEOUT)
        file = self.folder / "trace.json"
        self.assertEqual(self.errors(run("--trace-schedule", file, "--skip-train").stderr), [
            "--trace-schedule: expected a run with at least one step, found none"])
        self.assertFalse(file.exists())
        done = run("--trace-schedule", "/proc/none/trace.json")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(self.errors(done.stderr)[0], "^--trace-schedule: .*/proc/none")
        self.assertEqual(run("--trace-schedule", file).returncode, 0)
        self.assertTrue(json.loads(file.read_text())["traceEvents"])
        codes, _, err = self.end(self.start(2, "--train-iters", 1,
                                            of_rank={1: ["--trace-schedule", file]}))
        self.assertEqual(codes, [1, 1])
        self.assertEqual(self.errors(err), [
            f"rank 1: command line: expected --trace-schedule None as on rank 0, found --trace-schedule {file}"])


if __name__ == "__main__":
    if not ORACLE.is_dir():
        print(f"skipped: {ORACLE} is missing")
        sys.exit(77)
    try:
        import torch.distributed  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
