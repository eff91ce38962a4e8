#!/usr/bin/env python3
"""The reference against Megatron's own files: what it expects is what Megatron wrote.

reference_reshape_test.py [unittest arguments]
"""
import hashlib
import json
import os
import sys
import unittest

try:
    import torch

    from reference import cases as checkpoint_cases
    from reference import names as reference_names
    from reference import reshape as reference
    from reference.cases import ORACLE, cases, merge
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

def params(case):
    with open(os.path.join(ORACLE, case, "params.json")) as file:
        return json.load(file)


def digest(tensor):
    data = tensor.contiguous().view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(data).hexdigest()


class Reference(unittest.TestCase):
    def test_the_orders_of_real_runs_are_reproduced(self):
        seen = 0
        for case in cases():
            if not os.path.exists(os.path.join(ORACLE, case, "params.json")) or "distopt" in case:
                continue
            merged = merge(case)
            config = merged.config
            expected, _ = reference.expect(merged, config.tp, config.pp, config.vpp)
            for rank in params(case):
                if rank["dp"]:
                    continue
                with self.subTest(case=case, tp=rank["tp"], pp=rank["pp"]):
                    self.check_rank(expected[rank["tp"], rank["pp"]], rank, config.vpp)
                    seen += 1
        self.assertGreater(seen, 15)

    def check_rank(self, expected, rank, vpp):
        def shown(chunk, name):
            name = name.replace("word_embeddings_for_head", "word_embeddings")
            return f"model{chunk}/{name}" if vpp > 1 else name

        names = [[shown(c, name), list(tensor.shape)]
                 for c, chunk in enumerate(expected.chunks) for name, tensor in chunk.items()]
        self.assertEqual(names, [row[:2] for row in rank["named_parameters"]])
        groups = rank.get("float16_groups") or rank["groups"]
        self.assertEqual([[shown(*key) for key in group["names"]] for group in expected.groups],
                         groups)

    def test_a_checkpoint_split_anew_is_itself(self):
        for case in cases():
            if case.startswith("old_"):
                continue
            merged = merge(case)
            config = merged.config
            expected, _ = reference.expect(merged, config.tp, config.pp, config.vpp)
            for key, state in merged.ranks.items():
                with self.subTest(case=case, rank=key):
                    for mine, chunk in zip(expected[key].chunks, reference_names.chunks_of(state)):
                        chunk = {name: value for name, value in chunk.items()
                                 if not name.endswith("_extra_state")}
                        order = sorted if merged.family == "te" else list  # Renamed in place.
                        self.assertEqual(order(mine), order(chunk))
                        for name in mine:
                            self.assertTrue(torch.equal(mine[name], chunk[name]), name)
                    self.check_optimizer(expected[key], state.get("optimizer"))

    def check_optimizer(self, expected, optimizer):
        parts = reference.optimizer_parts(optimizer)
        if parts is None:
            return
        state, groups, masters = parts
        self.assertEqual([group["wd_mult"] for group in expected.groups],
                         [group["wd_mult"] for group in groups])
        place = 0
        for number, group in enumerate(expected.groups):
            for index, key in enumerate(group["names"]):
                want = expected.optimizer[key]
                for kind in ("exp_avg", "exp_avg_sq"):
                    self.assertTrue(torch.equal(want[kind], state[place][kind]))
                if masters:
                    self.assertTrue(torch.equal(want["fp32_param"], masters[number][index]))
                place += 1

    def test_it_writes_what_the_real_tools_wrote(self):
        seen = 0
        for case in cases():
            if "__to_" not in case:
                continue
            source = case.split("__to_")[0]
            merged = merge(source)
            # The tool of these revisions keeps no vocabulary size for untied models.
            untold = case.endswith("_novocab") or not merged.config.tied and not \
                source.startswith("mcore")
            target = merge(case)
            widened = torch.float32 if source.startswith(("gpt_", "v050_")) else None
            expected, rows = reference.expect(
                merged, target.config.tp, target.config.pp, family=target.family, dtype=widened,
                true_vocab=None if untold else checkpoint_cases.TRUE_VOCAB_SIZE)
            self.assertEqual(rows, target.config.args.padded_vocab_size)
            for key, state in target.ranks.items():
                with self.subTest(case=case, rank=key):
                    theirs = {name: tensor for name, tensor in
                              reference_names.chunks_of(state)[0].items()
                              if not name.endswith("_extra_state")}
                    mine = expected[key].chunks[0]
                    self.assertEqual(sorted(mine), sorted(theirs))
                    for name in mine:
                        self.assertEqual(mine[name].dtype, theirs[name].dtype, name)
                        self.assertEqual(digest(mine[name]), digest(theirs[name]), name)
                    seen += 1
        self.assertGreater(seen, 30)

    def test_old_orders_of_qkv_are_the_same_model(self):
        like = merge("gpt_tp2pp2_fp16")
        for case in ("old_v0_tp2", "old_v1_tp2", "old_flat2019_tp2"):
            merged = merge(case)
            self.assertEqual(sorted(merged.tensors), sorted(like.tensors))
            for name, kinds in merged.tensors.items():
                weight = kinds["weight"]
                self.assertTrue(torch.equal(weight.half(), like.tensors[name]["weight"]),
                                f"{case} {name}")


if __name__ == "__main__":
    if not os.path.isdir(ORACLE):
        print("skipped: no shared folder with checkpoints of the real Megatron-LM")
        sys.exit(77)
    unittest.main()
