#!/usr/bin/env python3
"""What reblend writes, read by unmodified megatron-core 0.16.1, and by 0.19.2 where scripts/setup.sh unpacked it.

megatron_core_goes_on_with_reblends.py BIN [unittest arguments]
Every token of the datasets is another number, so that a sample says where it comes from. Runs are drawn at random: their
first samples are read by megatron-core as it builds them, the rest from reblend's caches.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import numpy

if sys.argv[1] == "--read":  # another megatron-core, in a process of its own
    sys.path.insert(0, sys.argv[2])

try:
    import torch
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
    from megatron.core.datasets.utils import get_blend_from_list
    from megatron.core.tokenizers import MegatronTokenizer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BIN = ""
NEWER = os.path.join(os.environ.get("MEG_DEPS", os.path.expanduser("~/.cache/libmeg")), "megatron-core-0.19.2")
VOCAB_SIZE = 1 << 30
CASES = int(os.environ.get("REBLEND_CASES", 6))


class Tokenizer:
    """What names caches, as 0.16.1's null tokenizer has it: 0.19.2's has another name."""

    eod = VOCAB_SIZE - 1
    vocab_size = VOCAB_SIZE

    def __init__(self, identity):
        self.unique_identifiers = identity


def datasets_of(case):
    """The three splits that megatron-core builds or loads."""
    if "identity" not in case:
        case["identity"] = MegatronTokenizer.from_pretrained(
            metadata_path={"library": "null"}, vocab_size=VOCAB_SIZE).unique_identifiers
    blends = {name: get_blend_from_list(case.get(name)) for name in ("data", "train", "valid", "test")}
    own = {"blend": blends["data"], "split": case["split"]} if blends["data"] else {
        "blend_per_split": [blends["train"], blends["valid"], blends["test"]]}
    config = GPTDatasetConfig(
        random_seed=case["seed"], sequence_length=case["seq"], path_to_cache=case["cache"], **own,
        tokenizer=Tokenizer(case["identity"]),
        create_attention_mask=False, reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False,
        add_extra_token_to_sequence=case["extra"], mid_level_dataset_surplus=0.005)
    return BlendedMegatronDatasetBuilder(GPTDataset, case["samples"], lambda: True, config).build()


def samples_of(dataset, count=None):
    """Tokens and, for the samples of a blend, the dataset's number."""
    if dataset is None:
        return []
    found = []
    for i in range(len(dataset) if count is None else min(count, len(dataset))):
        sample = dataset[i]
        mask = sample["loss_mask"].bool()
        found.append([int(sample.get("dataset_id", 0)), sample["tokens"].tolist(), sample["labels"].tolist(),
                      mask.tolist()])
    return found


def answer(case):
    train, valid, test = datasets_of(case)
    return [samples_of(train, case["samples"][0]), samples_of(valid, case["samples"][1]),
            samples_of(test, case["samples"][2])]


class Reblend(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.addCleanup(self.make_writable)
        self.folder = folder.name
        self.next_token = 1

    def make_writable(self):
        for place, _, _ in os.walk(self.folder):
            os.chmod(place, 0o755)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write_dataset(self, prefix, chooser, most=60):
        builder = IndexedDatasetBuilder(prefix + ".bin", dtype=numpy.int32)
        documents = []
        for _ in range(chooser.randint(20, most)):
            documents.append([])
            for _ in range(chooser.choice([0, 1, 1, 1, 1, 3])):
                length = chooser.choice([0, 1, 2, 7, 30, 90])
                tokens = list(range(self.next_token, self.next_token + length))
                self.next_token += length
                builder.add_item(torch.tensor(tokens, dtype=torch.int64))
                documents[-1] += tokens
            builder.end_document()
        # Megatron loops for ever over a split without tokens, and the last sequences are one of their own.
        for _ in range(4):
            documents.append(list(range(self.next_token, self.next_token + 90)))
            self.next_token += 90
            builder.add_item(torch.tensor(documents[-1], dtype=torch.int64))
            builder.end_document()
        builder.finalize(prefix + ".idx")
        return documents

    def flags_of(self, case):
        flags = ["--seq-length", case["seq"], "--seed", case["seed"], "--tokenizer-type", "NullTokenizer", "--vocab-size",
                 VOCAB_SIZE, "--samples", ",".join(map(str, case["samples"])), "--data-cache-path", case["cache"],
                 "--megatron-version", "core_v0.16.1"]
        if "data" in case:
            flags += ["--data-path", *case["data"], "--split", case["split"]]
        else:
            for name in ("train", "valid", "test"):
                flags += [f"--{name}-data-path", *case[name]]
        return [str(flag) for flag in flags + ([] if case["extra"] else ["--no-extra-token"])]

    def run_program(self, program, *arguments):
        return subprocess.run([os.path.join(BIN, program), *map(str, arguments)], capture_output=True, text=True, timeout=300)

    def reblend(self, case, consumed, blend, *flags):
        """The case of the continued run, and what reblend says of it."""
        out = case["cache"] + "-next"
        done = self.run_program("reblend", *(["--new-blend", *blend] if blend else []), "--consumed-samples", consumed,
                                "--new-data-cache-path", out, "--json", *flags, *self.flags_of(case))
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        words = said["flags"]
        end = words.index("--data-cache-path")
        self.assertEqual(words[end + 1], out)
        return {**case, words[0][2:].split("-")[0]: words[1:end], "cache": out}, said

    def draw_case(self, number):
        chooser = random.Random(number)
        count = chooser.randint(1, 4)
        prefixes, documents = [], {}
        for i in range(count + 1):
            prefixes.append(self.path(f"c{number}d{i}"))
            documents[prefixes[-1]] = self.write_dataset(prefixes[-1], chooser)
        case = {"seq": chooser.choice([5, 16, 33]), "seed": chooser.randint(1, 10_000), "extra": chooser.random() < 0.8,
                "cache": self.path(f"cache{number}"), "samples": [chooser.randint(10, 300), 7, 3]}
        weights = [chooser.choice([0.1, 1, 2.5, 0.333]) for _ in range(count)]
        words = [str(word) for pair in zip(weights, prefixes) for word in pair]
        if chooser.random() < (0.5 if count == 1 else 0.2):
            words = prefixes[:count]  # without weights each gives what it has
        if chooser.random() < 0.6:
            case.update(data=words, split=chooser.choice(["80,15,5", "1,0,0", "50,50,0"]))
            if case["split"] == "1,0,0":
                case["samples"][1:] = [0, 0]
            if case["split"] == "50,50,0":
                case["samples"][2] = 0
        else:
            case.update(train=words, valid=[prefixes[-1]], test=[prefixes[-1]], split=None)
        chosen = [prefix for prefix in prefixes[: count + ("data" in case)] if chooser.random() < 0.7] or prefixes[:1]
        blend = [word for prefix in chosen for word in (chooser.choice(["1", "0.25", "3"]), prefix)]
        return case, chooser.randint(0, case["samples"][0] - 1), blend, documents

    def check(self, case, consumed, blend, before, after, said):
        """before, after: the samples of the three splits."""
        self.assertEqual(after[0][:consumed], before[0][:consumed])
        # A blend without weights may have fewer samples than are asked for.
        self.assertEqual([[sample[1:] for sample in split[: len(old)]] for split, old in zip(after[1:], before[1:])],
                         [[sample[1:] for sample in split] for split in before[1:]])
        prefixes = get_blend_from_list(said["flags"][1:-2])[0]
        # The weights hold from the next sample on: Megatron's own arithmetic says which dataset gives it.
        from megatron.core.datasets import helpers
        # The flags name the run's datasets in its order, and then new ones.
        order = sorted(range(len(blend) // 2), key=lambda i: prefixes.index(blend[2 * i + 1]))
        blend = [word for i in order for word in blend[2 * i : 2 * i + 2]]
        weights = numpy.array([float(weight) for weight in blend[::2]])
        rest = case["samples"][0] - consumed
        index, ignored = numpy.zeros(rest, dtype=numpy.int16), numpy.zeros(rest, dtype=numpy.int64)
        helpers.build_blending_indices(index, ignored, weights / weights.sum(), len(weights), rest, False)
        self.assertEqual([prefixes[sample[0]] for sample in after[0][consumed:]], [blend[1::2][i] for i in index])
        held_out = {token for split in after[1:] for sample in split for token in sample[1]} if "data" in case else set()
        for number, prefix in enumerate(prefixes):
            told = next(each for each in said["datasets"] if each["prefix"] == prefix)
            samples = [sample for sample in after[0] if sample[0] == number]
            given = sum(sample[0] == number for sample in after[0][:consumed])
            self.assertEqual((told["given"], told["to_come"]), (given, len(samples) - given))
            if told["left"] is None:
                continue
            if told["left"] == 0:  # its further epochs have begun
                self.assertEqual(told["repeats_at"], next((i for i, sample in enumerate(after[0])
                                                           if i >= consumed and sample[0] == number), None))
                continue
            # Each token once before the first one comes again.
            whole = samples[: given + told["left"]]
            tokens = [token for sample in whole for token in sample[1]]
            self.assertEqual(len(tokens), len(set(tokens)))
            self.assertEqual(len(tokens), len(whole) * case["seq"])
            self.assertFalse(held_out & set(tokens))
            if told["repeats_at"] is None:
                self.assertLessEqual(len(samples), given + told["left"])
            else:
                self.assertEqual([i for i, sample in enumerate(after[0]) if sample[0] == number][given + told["left"]],
                                 told["repeats_at"])
                # None is lost: less than a sample of the epoch is left when it repeats.
                self.assertLess(told["epoch_tokens"] - len(tokens), case["seq"] + 1)

    def test_random_runs_go_on(self):
        cases, afters = [], []
        for number in range(CASES):
            case, consumed, blend, _ = self.draw_case(number)
            with self.subTest(number=number):
                before = answer(case)
                consumed = min(consumed, len(before[0]))
                following, said = self.reblend(case, consumed, blend)
                after = answer(following)
                self.check(case, consumed, blend, before, after, said)
                cases.append(following)
                afters.append(after)
                found = self.run_program("prepare_cache", "--json", *self.flags_of(following))
                self.assertEqual(found.returncode, 0, found.stderr)
                self.assertEqual({cache["outcome"] for cache in json.loads(found.stdout)["caches"]}, {"found"})
        self.check_newer(cases, afters)

    def check_newer(self, cases, afters):
        """megatron-core 0.19.2 reads the same."""
        if not os.path.isdir(NEWER):
            self.skipTest("no megatron-core 0.19.2: scripts/setup.sh unpacks it")
        done = subprocess.run([sys.executable, __file__, "--read", NEWER], input=json.dumps(cases), capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1]), afters)

    def test_a_run_is_reblended_again_and_again(self):
        cases, afters = [], []
        for number in range(200, 200 + CASES):
            case, consumed, blend, _ = self.draw_case(number)
            chooser = random.Random(number)
            after = answer(case)
            consumed = min(consumed, len(after[0]))
            known = list(dict.fromkeys(self.prefixes_of(case) + blend[1::2]))
            for turn in range(3):
                with self.subTest(number=number, turn=turn):
                    before = after
                    case, said = self.reblend(case, consumed, blend)
                    after = answer(case)
                    self.check(case, consumed, blend, before, after, said)
                    weights = {each["prefix"]: each["new_weight"] for each in said["datasets"]}
                    if turn > 0:
                        self.assertEqual({each["prefix"]: each["old_weight"] for each in said["datasets"]
                                          if not each["new"]}, {prefix: old[prefix] for prefix in old})
                    old = weights
                    cases.append(case)
                    afters.append(after)
                # Now and then the run has gone back to an older checkpoint.
                consumed = chooser.randint(consumed // 2, case["samples"][0] - 1)
                chosen = [prefix for prefix in known if chooser.random() < 0.6] or known[:1]
                blend = [word for prefix in chosen for word in (chooser.choice(["1", "0.25", "3"]), prefix)]
        self.check_newer(cases, afters)

    @staticmethod
    def prefixes_of(case):
        return get_blend_from_list(case.get("data") or case["train"])[0]

    def test_what_is_excluded_stays_excluded(self):
        for number in range(300, 304):
            case, consumed, _, documents = self.draw_case(number)
            chooser = random.Random(number)
            prefix = self.prefixes_of(case)[-1]
            gone = set()
            for turn in range(3):
                chosen = sorted(chooser.sample(range(len(documents[prefix])), 3)) if turn < 2 else []
                gone |= {token for i in chosen for token in documents[prefix][i]}
                # The last one only has other weights, and the run becomes longer: a further epoch comes.
                flags = ["--exclude-documents", f"{prefix}={','.join(map(str, chosen))}"] if chosen else [
                    "--new-train-samples", case["samples"][0] * 3, "--micro-batch-size", 1, "--eval-iters", 1]
                blend = [] if chosen else ["1", prefix]
                with self.subTest(number=number, turn=turn):
                    case, said = self.reblend(case, consumed, blend, *flags)
                    case["samples"] = [said["samples"], *(case["samples"][1:] if chosen else [1, 1])]
                    after = samples_of(datasets_of(case)[0], case["samples"][0])
                    self.assertFalse(gone & {token for sample in after[consumed:] for token in sample[1]})
                consumed = chooser.randint(consumed, case["samples"][0] - 1)

    def test_the_same_blend_goes_on_in_a_longer_run(self):
        case, consumed, _, _ = self.draw_case(400)
        prefix = self.prefixes_of(case)[0]
        for turn, total in enumerate((500, 900)):
            before = answer(case)
            consumed = min(consumed, len(before[0]))
            case, said = self.reblend(case, consumed, [], "--exclude-documents", f"{prefix}={turn}", "--new-train-samples",
                                      total, "--micro-batch-size", 1, "--eval-iters", 1)
            case["samples"] = [total, 1, 1]
            after = samples_of(datasets_of(case)[0], total)
            self.assertEqual([sample[1:] for sample in after[:consumed]], [sample[1:] for sample in before[0][:consumed]])
            weights = {each["prefix"]: each["new_weight"] for each in said["datasets"]}
            for number, name in enumerate(self.prefixes_of(case)):
                part = sum(sample[0] == number for sample in after)
                self.assertLessEqual(abs(part - total * weights[name]), 2)
            consumed = 450

    def test_excluded_documents_are_not_read_again(self):
        for number in range(100, 106):
            case, consumed, _, documents = self.draw_case(number)
            chooser = random.Random(number)
            prefix = self.prefixes_of(case)[-1]
            chosen = sorted(chooser.sample(range(len(documents[prefix])), 5))
            gone = {token for i in chosen for token in documents[prefix][i]}
            with self.subTest(number=number):
                before = answer(case)
                consumed = min(consumed, len(before[0]))
                following, _ = self.reblend(case, consumed, [], "--exclude-documents",
                                            f"{prefix}={','.join(map(str, chosen))}")
                after = answer(following)
                self.assertEqual([sample[1:] for sample in after[0][:consumed]],
                                 [sample[1:] for sample in before[0][:consumed]])
                texts = [[self.texts(split[0][consumed:], number, case) for split in (before, after)]
                         for number in sorted({sample[0] for sample in before[0]})]
                for old, new in texts:
                    wanted = [[token for token in text if token not in gone] for text in old]
                    wanted = [text for text, whole in zip(wanted, old) if len(text) > case["extra"] or text == whole]
                    self.assertEqual(new[: len(wanted)], wanted[: len(new)])
                    self.assertFalse(gone & {token for text in new for token in text})

    @staticmethod
    def texts(samples, number, case):
        """The tokens of each sample of a dataset, without padding, which is 0."""
        return [[token for token in tokens + labels[-1:] * case["extra"] if token]
                for dataset, tokens, labels, _ in samples if dataset == number]

    def test_files_of_flags_are_replaced(self):
        """--data-args-path and --per-split-data-args-path, which Megatron does not take beside the new flags."""
        chooser = random.Random(2)
        for name in "abc":
            self.write_dataset(self.path(name), chooser)
        a, b, c = map(self.path, "abc")
        base = {"seq": 16, "seed": 1, "extra": True, "samples": [60, 5, 5]}
        with open(self.path("all.txt"), "w") as file:
            file.write(f"1 {a} 1 {b}")
        with open(self.path("split.json"), "w") as file:
            json.dump({"train": ["1", a, "1", b], "valid": [c], "test": [c]}, file)
        for number, (case, flags, dropped, wanted) in enumerate((
                ({"data": ["1", a, "1", b], "split": "90,5,5"}, ["--data-args-path", self.path("all.txt"), "--split", "90,5,5"],
                 ["--data-args-path"], ["--data-path"]),
                ({"train": ["1", a, "1", b], "valid": [c], "test": [c], "split": None},
                 ["--per-split-data-args-path", self.path("split.json")],
                 ["--per-split-data-args-path"], ["--train-data-path", "--valid-data-path", "--test-data-path"]))):
            case.update(base, cache=self.path(f"files{number}"))
            before = answer(case)
            out = case["cache"] + "-next"
            common = self.flags_of({**case, "data": [a]} if "data" in case else case)
            for name in ("--data-path", "--split", "--train-data-path", "--valid-data-path", "--test-data-path"):
                while name in common:
                    at = common.index(name)
                    end = next((i for i in range(at + 1, len(common)) if common[i].startswith("--")), len(common))
                    del common[at:end]
            done = self.run_program("reblend", "--new-blend", "3", a, "1", b, "--consumed-samples", 20,
                                    "--new-data-cache-path", out, "--json", *common, *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = json.loads(done.stdout)
            self.assertEqual(said["dropped_flags"], dropped)
            self.assertEqual([word for word in said["flags"] if word.startswith("--")], [*wanted, "--data-cache-path"])
            following = {**case, "cache": out}
            for name in wanted:
                at = said["flags"].index(name) + 1
                end = next(i for i in range(at, len(said["flags"])) if said["flags"][i].startswith("--"))
                following[name[2:].split("-")[0]] = said["flags"][at:end]
            after = answer(following)
            words = following.get("data") or following["train"]
            self.check(case, 20, ["3", a, "1", b], before, after,
                       {**said, "flags": [wanted[0], *words, "--data-cache-path", out]})

    def test_views_are_datasets(self):
        """Two views of one .bin in a run: the halves of a dataset."""
        chooser = random.Random(3)
        documents = self.write_dataset(self.path("a"), chooser)
        half = len(documents) // 2
        for name, part in (("first", f":{half}"), ("second", f"{half}:")):
            done = self.run_program("dataset_tool", "keep", self.path("a"), "--documents", part, "--output-prefix",
                                    self.path(name))
            self.assertEqual(done.returncode, 0, done.stderr)
        case = {"seq": 16, "seed": 1, "extra": True, "cache": self.path("cache"), "samples": [30, 0, 0], "split": "1,0,0",
                "data": ["1", self.path("first"), "1", self.path("second")]}
        before = answer(case)
        blend = ["3", self.path("second"), "1", self.path("first")]
        following, said = self.reblend(case, 10, blend)
        self.check(case, 10, blend, before, answer(following), said)
        done = self.run_program("reblend", "--new-blend", "1", self.path("a"), "--consumed-samples", 10, "--dry-run",
                                *self.flags_of(case))
        self.assertEqual(done.returncode, 1)
        self.assertIn("found a view of those of", done.stderr)

    def test_a_killed_reblend_leaves_nothing_half(self):
        chooser = random.Random(4)
        for name in "ab":
            self.write_dataset(self.path(name), chooser, most=400)
        case = {"seq": 8, "seed": 1, "extra": True, "cache": self.path("cache"), "samples": [3000, 40, 0], "split": "90,10,0",
                "data": ["1", self.path("a"), "1", self.path("b")]}
        out = self.path("killed", "next")
        command = [os.path.join(BIN, "reblend"), "--new-blend", "1", self.path("a"), "2", self.path("b"), "--consumed-samples",
                   "500", "--new-data-cache-path", out, "--json", *self.flags_of(case)]
        started = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = time.monotonic() - started
        words = json.loads(done.stdout)["flags"]
        names = sorted(os.listdir(out))
        following = {**case, "data": words[1:-2], "cache": out}
        shutil.rmtree(out)
        complete = 0
        for _ in range(int(os.environ.get("REBLEND_KILLS", 12))):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chooser.uniform(0, whole))
            process.kill()
            process.wait()
            if not os.path.exists(out):
                continue
            complete += 1
            self.assertEqual(sorted(os.listdir(out)), names)
            found = self.run_program("prepare_cache", "--json", *self.flags_of(following))
            self.assertEqual(found.returncode, 0, found.stderr)
            self.assertEqual({cache["outcome"] for cache in json.loads(found.stdout)["caches"]}, {"found"})
            shutil.rmtree(out)
        # What a killed one has left behind goes with the next one.
        self.assertEqual(subprocess.run(command, capture_output=True, timeout=300).returncode, 0)
        self.assertEqual(os.listdir(self.path("killed")), ["next"])

    def test_what_cannot_go_on_is_named(self):
        chooser = random.Random(1)
        for name in "abc":
            self.write_dataset(self.path(name), chooser)
        os.symlink(self.path("a.idx"), self.path("link.idx"))
        os.symlink(self.path("a.bin"), self.path("link.bin"))
        os.symlink(self.path("a.bin"), self.path("view.bin"))
        with open(self.path("a.idx"), "rb") as source, open(self.path("view.idx"), "wb") as file:
            file.write(source.read())
        case = {"seq": 16, "seed": 1, "extra": True, "cache": self.path("cache"), "samples": [60, 0, 0], "split": "1,0,0",
                "data": ["1", self.path("a"), "1", self.path("b")]}
        following, said = self.reblend(case, 20, ["1", self.path("link"), "2", self.path("b")])
        self.assertEqual(len(said["datasets"]), 2)
        for wanted, arguments in (
                ("found a view of those of", ["--new-blend", "1", self.path("view")]),
                ("expected each dataset once", ["--new-blend", "1", self.path("a"), "1", self.path("link")]),
                ("samples that the run has not seen, found", ["--no-repeats", "--new-blend", "1", self.path("a"),
                                                             "--new-train-samples", "100000", "--micro-batch-size", "1"]),
                ("expected no folder, or an empty one", ["--new-blend", "1", self.path("a"), "--new-data-cache-path",
                                                         self.path("cache-next")]),
                ("missing.idx: No such file", ["--new-blend", "1", self.path("missing")]),
                ("a weight before each", ["--new-blend", self.path("a"), self.path("b")]),
                ("expected weights above 0", ["--new-blend", "0", self.path("a"), "1", self.path("b")]),
                ("expected weights with a finite sum above 0, found inf", ["--new-blend", "1e308", self.path("a"), "1e308",
                                                                           self.path("b")]),
                ("found one in a store", ["--new-blend", "1", self.path("a"), "--new-data-cache-path", "s3://bucket/cache"]),
                ("--sft: samples of packed data", ["--new-blend", "1", self.path("a"), "--sft"]),
                ("found one in a store", ["--new-blend", "1", "s3://bucket/a"]),
                ("expected documents of 0 to", ["--exclude-documents", self.path("a") + "=9999"]),
                ("expected a dataset of the run to exclude", ["--new-blend", "1", self.path("c"), "--exclude-documents",
                                                              self.path("c") + "=1"]),
                ("expected Megatron core", ["--new-blend", "1", self.path("a"), "--megatron-version", "v2.6"]),
                ("expected Megatron core", ["--new-blend", "1", self.path("a"), "--megatron-version", "23.04"]),
                ("expected Megatron core", ["--new-blend", "1", self.path("a"), "--megatron-version", "6ef5bdc"]),
                ("shuffled again", ["--new-blend", "1", self.path("a"), "--dataloader-type", "cyclic"]),
                ("expected one of ", ["--new-blend", "1", self.path("a"), "--iteration", "3"])):
            done = self.run_program("reblend", "--consumed-samples", 20, "--new-data-cache-path", self.path("x"),
                                    *self.flags_of(case), *arguments)
            self.assertNotEqual(done.returncode, 0, wanted)
            self.assertIn(wanted, done.stderr.splitlines()[-1])
            self.assertFalse(os.path.exists(self.path("x")) or os.path.exists(self.path("x.partial")))
        # Flags that reblend has not printed find no cache in its folder, and build none.
        done = self.run_program("prepare_cache", *self.flags_of({**following, "seed": 2}))
        self.assertEqual(done.returncode, 1)
        self.assertIn("reblend has written the folder", done.stderr)


def set_up_torch():
    store = tempfile.NamedTemporaryFile()
    torch.distributed.init_process_group("gloo", init_method=f"file://{store.name}", rank=0, world_size=1)


if __name__ == "__main__":
    import logging
    import warnings
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    set_up_torch()
    if sys.argv[1] == "--read":
        print(json.dumps([answer(case) for case in json.load(sys.stdin)]))
        sys.exit()
    BIN = sys.argv.pop(1)
    unittest.main()
