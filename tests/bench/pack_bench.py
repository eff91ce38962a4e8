#!/usr/bin/env python3
"""pack_dataset beside transformers' apply_chat_template and Megatron-Bridge's packing, outputs compared first.

pack_bench.py PROGRAM TESTDATA/tokenizer --corpus FILE.jsonl [--megatron-bridge FOLDER] [--conversations N] [--peer N]
              [--workers N] [--runs N]

FOLDER: an unpacked megatron-bridge, such as of `pip install --no-deps --target FOLDER megatron-bridge==0.3.1`; its packing
functions are loaded by their path. Without it a first fit over numpy's arrays stands for them (it opens the same bins). The
peer packs the first N conversations (--peer), one process; ours packs these for the comparison, and then all of them.
Conversations are made of the corpus's words, from a fixed seed. Prints a Markdown table; times are of the processor (user and
system, children included), of ours also of the wall.
"""
import argparse
import collections
import importlib.util
import json
import os
import random
import resource
import statistics
import subprocess
import tempfile
import time

import numpy
import pyarrow
import pyarrow.parquet
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}{% if message.role == 'assistant' %}"
            "{% generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}{% else %}"
            "{{ message.content + '<|im_end|>\n' }}{% endif %}{% endfor %}")


def make_tokenizer(source, folder):
    with open(f"{source}/vocab.json") as file:
        vocab = json.load(file)
    with open(f"{source}/merges.txt") as file:
        merges = [tuple(line.split()) for line in file.read().split("\n")[1:] if line]
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in ("<|im_start|>", "<|im_end|>")])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", chat_template=TEMPLATE)
    fast.save_pretrained(folder)
    return fast


def conversations(corpus, count):
    """Of one to three questions and answers; 180 tokens on the average of English text."""
    with open(corpus) as file:
        words = [word for line, _ in zip(file, range(20000)) for word in json.loads(line)["text"].split(" ")]
    rng = random.Random(7)

    def text(least, most):
        length = rng.randint(least, most)
        begin = rng.randrange(len(words) - length)
        return " ".join(words[begin:begin + length])

    for _ in range(count):
        messages = [{"role": "system", "content": "You are kind."}] if rng.random() < 0.3 else []
        for _ in range(rng.randint(1, 3)):
            messages += [{"role": "user", "content": text(4, 30)}, {"role": "assistant", "content": text(10, 90)}]
        yield messages


def first_fit(histogram, size, _algorithm):
    """What Megatron-Bridge's create_packing_strategy gives, by an array of the room that bins have left."""
    lengths = [length for length, count in enumerate(histogram) for _ in range(count)][::-1]
    room = numpy.full(len(lengths), size)
    bins = []
    for length in lengths:
        at = int(numpy.argmax(room[:len(bins) + 1] >= length))
        if at == len(bins):
            bins.append([])
        bins[at].append(length)
        room[at] -= length
    return bins, {}


def create_hist(dataset, longest):
    sequences = collections.defaultdict(list)
    for one in dataset:
        sequences[len(one["input_ids"]) - 1].append(one)
    return sequences, [len(sequences[length]) for length in range(longest + 1)]


def fill(assignments, sequences, _size, _pad):
    rows = []
    for lengths in assignments:
        row = {"input_ids": [], "loss_mask": [], "seq_start_id": []}
        for length in lengths:
            one = sequences[length].pop()
            row["seq_start_id"].append(len(row["input_ids"]))
            row["input_ids"] += list(one["input_ids"])
            row["loss_mask"] += list(one["loss_mask"][1:]) + [0]
        rows.append(row)
    return rows


def packing_of(folder):
    if folder is None:
        return create_hist, first_fit, fill, "numpy's first fit"
    for path in ("megatron/bridge/data/datasets/packing_utils.py", "src/megatron/bridge/data/packing/algorithms.py"):
        if os.path.exists(f"{folder}/{path}"):
            spec = importlib.util.spec_from_file_location("bridge_packing", f"{folder}/{path}")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module.create_hist, module.create_packing_strategy, module.fill_packing_strategy, "Megatron-Bridge"
    raise SystemExit(f"{folder}: expected an unpacked megatron-bridge")


def peer(tokenizer, lines, size, functions, output):
    """As Megatron-Bridge prepares chats: one dictionary a conversation, then bins, then Parquet."""
    hist, strategy, filled, _ = functions
    dataset = []
    with open(lines) as file:
        for line in file:
            made = tokenizer.apply_chat_template(json.loads(line)["messages"], tokenize=True, return_dict=True,
                                                 return_assistant_tokens_mask=True)
            dataset.append({"input_ids": made["input_ids"], "loss_mask": made["assistant_masks"]})
    sequences, histogram = hist(dataset, size)
    bins, _ = strategy(histogram, size, "first_fit_decreasing")
    rows = filled(bins, sequences, size, tokenizer.eos_token_id)
    table = pyarrow.table({
        "input_ids": [row["input_ids"] for row in rows],
        "loss_mask": pyarrow.array([[int(value) for value in row["loss_mask"]] for row in rows], pyarrow.list_(pyarrow.int8())),
        "seq_start_id": [row["seq_start_id"] for row in rows]})
    pyarrow.parquet.write_table(table, output, row_group_size=500)


def content(path):
    """The conversations, and the lengths that lie together, whatever the order of equal ones."""
    sequences, bins = collections.Counter(), collections.Counter()
    for row in pyarrow.parquet.read_table(path).to_pylist():
        ends = row["seq_start_id"][1:] + [len(row["input_ids"])]
        spans = list(zip(row["seq_start_id"], ends))
        bins[tuple(sorted(end - begin for begin, end in spans))] += 1
        for begin, end in spans:
            sequences[tuple(row["input_ids"][begin:end]), tuple(row["loss_mask"][begin:end])] += 1
    return sequences, bins


def processor_seconds(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("tokenizer")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--megatron-bridge")
    parser.add_argument("--conversations", type=int, default=200000)
    parser.add_argument("--peer", type=int, default=5000)
    parser.add_argument("--seq-length", type=int, default=4096)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    functions = packing_of(arguments.megatron_bridge)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = make_tokenizer(arguments.tokenizer, f"{folder}/tokenizer")
        with open(f"{folder}/all.jsonl", "w") as file, open(f"{folder}/few.jsonl", "w") as few:
            for i, messages in enumerate(conversations(arguments.corpus, max(arguments.conversations, arguments.peer))):
                line = json.dumps({"messages": messages}) + "\n"
                file.write(line)
                if i < arguments.peer:
                    few.write(line)

        def ours(name, *flags):
            begin, before = time.perf_counter(), processor_seconds(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                [arguments.program, "--input", f"{folder}/{name}.jsonl", "--output-prefix", f"{folder}/{name}", "--tokenizer-type",
                 "HuggingFaceTokenizer", "--tokenizer-model", f"{folder}/tokenizer", "--seq-length", str(arguments.seq_length),
                 "--packed-parquet", "--workers", str(arguments.workers), "--log-interval", "10000000", "--json", *flags], check=True, stdout=subprocess.PIPE)
            return (time.perf_counter() - begin, processor_seconds(resource.RUSAGE_CHILDREN) - before, json.loads(done.stdout))

        ours("few")
        before = processor_seconds(resource.RUSAGE_SELF)
        peer(tokenizer, f"{folder}/few.jsonl", arguments.seq_length, functions, f"{folder}/peer.parquet")
        theirs = processor_seconds(resource.RUSAGE_SELF) - before
        assert content(f"{folder}/few.idx.parquet") == content(f"{folder}/peer.parquet"), "outputs differ"
        times = [ours("few")[1] for _ in range(arguments.runs)]
        whole = [ours("all") for _ in range(arguments.runs)]
    _, _, answer = whole[0]
    rows = [("libmeg", arguments.peer, statistics.median(times)),
            (f"transformers + {functions[3]}", arguments.peer, theirs),
            ("libmeg", answer["conversations"], statistics.median(one[1] for one in whole))]
    print(f"{answer['tokens'] / answer['conversations']:.0f} tokens a conversation, --seq-length {arguments.seq_length}, "
          f"{arguments.workers} workers, {os.cpu_count()} processors; outputs of {arguments.peer} conversations are equal\n")
    print("| program | conversations | processor s | conversations/s of one processor |\n|---|---:|---:|---:|")
    for name, count, seconds in rows:
        print(f"| {name} | {count} | {seconds:.2f} | {count / seconds:.0f} |")
    print(f"\nwall: {statistics.median(one[0] for one in whole):.1f} s; ratio by processor time: "
          f"{(theirs / rows[1][1]) / (rows[2][2] / rows[2][1]):.1f}x")


if __name__ == "__main__":
    main()
