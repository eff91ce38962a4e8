"""What must hold for a checkpoint that checkpoint_util wrote, beside what it was made from."""
import os
import re
import zipfile

import torch

from reference import files as reference_files
from reference import names as reference_names
from reference import reshape as reference

# Fields of args that may differ from the source's, and why.
CHANGED = {
    "tensor_model_parallel_size", "model_parallel_size", "pipeline_model_parallel_size",
    "transformer_pipeline_model_parallel_size", "world_size", "padded_vocab_size",
    "virtual_pipeline_model_parallel_size", "num_layers_per_virtual_pipeline_stage",
    "decoder_first_pipeline_num_layers",  # New stages are even.
}
RANK_FIELDS = {"rank", "local_rank"}       # Of the writer; a new rank has another number.
DTYPE_FIELDS = {"fp16", "bf16", "params_dtype"}  # Where no optimizer holds to the old type.
NAME_FIELDS = {"use_mcore_models", "use_legacy_models"}
ABSENT = object()


class Target:
    """A wanted layout: the flags of checkpoint_util, in the tests' words."""

    def __init__(self, tp, pp, vpp=1, names=None, dtype=None, true_vocab=None, no_optim=False):
        self.tp, self.pp, self.vpp = tp, pp, vpp
        self.names, self.dtype, self.true_vocab, self.no_optim = names, dtype, true_vocab, no_optim

    def flags(self):
        flags = []
        if self.vpp > 1:
            flags += ["--target-virtual-pipeline-parallel-size", str(self.vpp)]
        if self.names:
            flags += ["--target-names", self.names]
        if self.dtype:
            flags += ["--target-params-dtype", self.dtype]
        if self.true_vocab:
            flags += ["--true-vocab-size", str(self.true_vocab)]
        return flags + (["--no-optim"] if self.no_optim else [])

    def torch_dtype(self):
        return {None: None, "fp32": torch.float32, "bf16": torch.bfloat16,
                "fp16": torch.float16}[self.dtype]

    def family(self, merged):
        if self.names == "legacy":
            return "legacy"
        if self.names == "mcore" and merged.family not in ("mcore", "te"):
            fused = getattr(merged.config.args, "transformer_impl", "") == "transformer_engine"
            return "te" if fused else "mcore"
        return merged.family

    def __repr__(self):
        return f"TP{self.tp} PP{self.pp} " + " ".join(self.flags())


def same(left, right):
    """Equality of anything a checkpoint holds, tensors and arrays bit for bit."""
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and left.dtype == right.dtype and \
            left.shape == right.shape and left.contiguous().view(-1).view(torch.uint8).equal(
                right.contiguous().view(-1).view(torch.uint8))
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if hasattr(left, "tobytes"):
        return left.dtype == right.dtype and left.tobytes() == right.tobytes()
    if hasattr(left, "getvalue"):
        return left.getvalue() == right.getvalue()
    return left == right or left != left and right != right


def seed(state):
    """Of a CUDA generator's state: its seed and its offset stand at the end."""
    return int.from_bytes(bytes(state[-16:-8].tolist()), "little")


class Checker:
    """Holds an output of checkpoint_util against its source; `test` is the unittest case."""

    def __init__(self, test, merged, target, output):
        self.test, self.merged, self.target, self.output = test, merged, target, output
        self.source = merged.ranks
        # Without the flag another tensor size pads the vocabulary of args.
        true_vocab = target.true_vocab
        if true_vocab is None and target.tp != merged.config.tp:
            true_vocab = reference.stated_vocabulary(merged)
        self.expected, self.rows = reference.expect(
            merged, target.tp, target.pp, target.vpp, family=target.family(merged),
            dtype=target.torch_dtype(), true_vocab=true_vocab)

    def check(self):
        self.check_files()
        states = reference_files.load_ranks(self.output)
        self.test.assertEqual(sorted(states), sorted(self.expected))
        for key, state in states.items():
            with self.test.subTest(rank=key):
                self.check_keys(state)
                self.check_model(key, state)
                self.check_optimizer(key, state)
                self.check_args(key, state)
                self.check_others(key, state)
        return states

    def check_files(self):
        folder = reference_files.iteration_folder(self.output)
        self.test.assertEqual(sorted(os.listdir(self.output)),
                              sorted([os.path.basename(folder), "latest_checkpointed_iteration.txt"]))
        with open(os.path.join(self.output, "latest_checkpointed_iteration.txt")) as file:
            iteration = self.source[0, 0]["iteration"]
            self.test.assertIn(file.read(), (str(iteration), "release"))
        target = self.target
        names = [f"mp_rank_{t:02d}" + (f"_{p:03d}" if target.pp > 1 else "")
                 for t in range(target.tp) for p in range(target.pp)]
        self.test.assertEqual(sorted(os.listdir(folder)), sorted(names))
        for name in names:
            self.test.assertEqual(os.listdir(os.path.join(folder, name)), ["model_optim_rng.pt"])
            self.check_archive(os.path.join(folder, name, "model_optim_rng.pt"))

    def check_archive(self, path):
        with zipfile.ZipFile(path) as archive:
            self.test.assertIsNone(archive.testzip())
            for entry in archive.infolist():
                self.test.assertTrue(entry.filename.startswith("model_optim_rng/"))
                self.test.assertEqual(entry.compress_type, zipfile.ZIP_STORED)

    def check_keys(self, state):
        """The source's keys in their order; `model` may become model0, model1 ... and back."""
        def plain(keys):
            keys = ["model" if re.fullmatch(r"model\d+", key) else key for key in keys]
            return [key for index, key in enumerate(keys) if key not in keys[:index]]

        want = plain(self.source[0, 0])
        if self.target.no_optim:
            want = [key for key in want if key not in ("optimizer", "opt_param_scheduler")]
        got = [key for key in plain(state) if key in want or key != "opt_param_scheduler"]
        if "checkpoint_version" not in want:
            got = [key for key in got if key != "checkpoint_version"]
        if "args" not in want:
            got = [key for key in got if key != "args"]
        self.test.assertEqual(got, want)
        chunks = [key for key in state if re.fullmatch(r"model\d*", key)]
        self.test.assertEqual(chunks, ["model"] if self.target.vpp == 1 else
                              [f"model{chunk}" for chunk in range(self.target.vpp)])
        self.test.assertGreaterEqual(state["checkpoint_version"], 2.0)

    def check_model(self, key, state):
        chunks = reference_names.chunks_of(state)
        for want, chunk in zip(self.expected[key].chunks, chunks, strict=True):
            got = {name: value for name, value in chunk.items()
                   if not name.endswith("_extra_state")}
            if self.target.family(self.merged) == "te":
                self.test.assertEqual(sorted(got), sorted(want))
            else:
                self.test.assertEqual(list(got), list(want))
            for name, tensor in got.items():
                self.check_tensor(name, tensor, want[name])
            self.check_extra_state(chunk)

    def check_tensor(self, name, tensor, want):
        self.test.assertEqual((tensor.dtype, tensor.shape), (want.dtype, want.shape), name)
        self.test.assertTrue(tensor.is_contiguous(), name)
        self.test.assertEqual(tensor.untyped_storage().nbytes(), tensor.nbytes, name)
        self.test.assertTrue(same(tensor, want), f"{name}: values differ")

    def check_extra_state(self, chunk):
        """Carried over, or None; as many in a layer as the source has, in names that are kept."""
        found = {name: value for name, value in chunk.items() if name.endswith("_extra_state")}
        source = {}
        for state in self.source.values():
            for other in reference_names.chunks_of(state):
                source.update({re.sub(r"layers\.\d+", "layers.{}", name): value
                               for name, value in other.items() if name.endswith("_extra_state")})
        if self.target.family(self.merged) != self.merged.family:
            self.test.assertEqual(set(found.values()) - {None}, set())
            return
        for name in found:
            self.test.assertIn(re.sub(r"layers\.\d+", "layers.{}", name), source)
        layers = {name.split("layers.")[1].split(".")[0] for name in chunk if "layers." in name}
        per_layer = [name for name in source if "layers.{}" in name]
        self.test.assertEqual(sum("layers." in name for name in found),
                              len(layers) * len(per_layer))

    def check_optimizer(self, key, state):
        parts = reference.optimizer_parts(self.source[0, 0].get("optimizer"))
        if parts is None or self.target.no_optim:
            self.test.assertNotIn("optimizer", state)
            return
        source, optimizer = self.source[0, 0]["optimizer"], state["optimizer"]
        if self.target.dtype:
            return
        self.test.assertEqual(list(optimizer), list(source))
        self.test.assertTrue(same(optimizer.get("grad_scaler"), source.get("grad_scaler")))
        steps, groups, masters = reference.optimizer_parts(optimizer)
        wanted = self.expected[key]
        self.test.assertEqual([group["wd_mult"] for group in groups],
                              [group["wd_mult"] for group in wanted.groups])
        place = 0
        for number, group in enumerate(wanted.groups):
            count = len(group["names"])
            self.test.assertEqual(groups[number]["params"], list(range(place, place + count)))
            self.check_group(groups[number], self.merged.groups[group["wd_mult"]])
            for index, name in enumerate(group["names"]):
                pieces = dict(wanted.optimizer[name])
                if masters is not None:
                    self.check_tensor(f"{name} master", masters[number][index],
                                      pieces.pop("fp32_param"))
                if parts[0]:
                    self.check_state(name, steps[place], parts[0][0], pieces)
                place += 1
            if masters is not None:
                self.test.assertEqual(len(masters[number]), count)
        self.test.assertEqual(list(steps), list(range(place)) if parts[0] else [])

    def check_state(self, name, state, like, pieces):
        """What the optimizer keeps for one parameter; like: for another one in the source."""
        self.test.assertEqual(list(state), list(like))
        for kind, value in state.items():
            if kind in pieces:
                self.check_tensor(f"{name} {kind}", value, pieces[kind])
            else:
                self.test.assertTrue(same(value, like[kind]), f"{name} {kind}")

    def check_group(self, group, source):
        mine = {key: value for key, value in group.items() if key != "params"}
        self.test.assertTrue(same(mine, source), (mine, source))

    def check_args(self, key, state):
        source, target = self.source[0, 0].get("args"), self.target
        if source is None:
            return
        old, new = vars(source), vars(state["args"])
        self.test.assertEqual(type(state["args"]), type(source))
        allowed = CHANGED | RANK_FIELDS
        allowed = allowed | (NAME_FIELDS if target.names else set())
        allowed = allowed | ({"sequence_parallel"} if target.tp == 1 else set())
        says_dtype = target.dtype and "optimizer" not in state
        allowed = allowed | (DTYPE_FIELDS if says_dtype else set())
        differing = {name for name in {**old, **new}
                     if not same(old.get(name, ABSENT), new.get(name, ABSENT))}
        self.test.assertLessEqual(differing, allowed)
        # Order is kept; what is new stands at the end.
        self.test.assertEqual([name for name in new if name in old], list(old))
        # Before version 3.0 args speak of model_parallel_size alone.
        want = {"model_parallel_size": target.tp} if "model_parallel_size" in old else \
            {"tensor_model_parallel_size": target.tp, "pipeline_model_parallel_size": target.pp}
        want["padded_vocab_size"] = self.rows
        if "virtual_pipeline_model_parallel_size" in old:
            layers = self.merged.config.layers // (target.pp * target.vpp)
            want["virtual_pipeline_model_parallel_size"] = target.vpp if target.vpp > 1 else None
            want["num_layers_per_virtual_pipeline_stage"] = layers if target.vpp > 1 else None
        if "transformer_pipeline_model_parallel_size" in old:
            want["transformer_pipeline_model_parallel_size"] = target.pp
        if "world_size" in old:
            want["world_size"] = target.tp * target.pp * old.get("data_parallel_size", 1)
        if says_dtype:
            said = {"fp16": target.dtype == "fp16", "bf16": target.dtype == "bf16",
                    "params_dtype": target.torch_dtype()}
            want |= {name: value for name, value in said.items() if name in old}
        for name, value in want.items():
            self.test.assertEqual(new.get(name), value, name)
        if target.tp == 1 and "sequence_parallel" in old:
            self.test.assertFalse(new["sequence_parallel"])

    def check_others(self, key, state):
        for name, value in self.source[0, 0].items():
            if name in ("args", "optimizer", "rng_state", "checkpoint_version") or \
                    re.fullmatch(r"model\d*|.*rng_state|rng_tracker_states", name) or \
                    name == "opt_param_scheduler" and self.target.no_optim:
                continue
            self.test.assertTrue(same(state[name], value), name)
        unchanged = self.merged.config
        if (self.target.tp, self.target.pp) == (unchanged.tp, unchanged.pp):
            self.test.assertTrue(same(state.get("rng_state"), self.source[key].get("rng_state")))
        if "rng_state" in state:
            self.check_random_states(key, state["rng_state"])

    def check_random_states(self, key, states):
        """CUDA generators bear the seeds that Megatron would give this rank: 100 more a stage, for
        the trackers of cut work 1 more a tensor-parallel rank."""
        for state, first in zip(states, self.source[0, 0]["rng_state"], strict=True):
            self.test.assertEqual(list(state), list(first))
            seeds = {name: seed(tensor) for name, tensor in state["rng_tracker_states"].items()}
            wanted = {name: seed(tensor) + 100 * key[1] +
                      (0 if name == "data-parallel-rng" else key[0])
                      for name, tensor in first["rng_tracker_states"].items()}
            self.test.assertEqual(seeds, wanted)
            self.test.assertEqual(seed(state["cuda_rng_state"]),
                                  seed(first["cuda_rng_state"]) + 100 * key[1])
