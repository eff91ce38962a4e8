#!/usr/bin/env python3
"""Encoding in memory, one thread: libmeg beside sentencepiece, tokenizers, tiktoken and quicktok.

encode_bench.py [--quick] [--runs N] [--corpus KIND ...] [--model TYPE=FILE ... | --vocabulary NAME ...]

Makes the corpora (300 MB each; --quick: 30 MB) with make_corpus.py of the shared folder. Without
--model: a BPE, a Unigram and a WordPiece model, which are trained here, once. --vocabulary: those
that the package quicktok-v1 brings, written as tokenizer.json. Compares all ids,
then times fresh processes interleaved: every figure is a median, word caches are cold, imports and
opening do not count. Seconds are the processor's, so that other work beside it matters little.
Prints a Markdown table.
"""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile

import numpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from preprocess_bench import KINDS, ROOT, corpus

sys.path.insert(0, os.path.join(ROOT, "tests", "tokenizer"))
from compare_with_packages import PATTERNS, tiktoken_of
from compare_with_python import byte_characters

PEERS = {
    "GPTSentencePieceTokenizer": ["sentencepiece"],
    "BertWordPieceLowerCase": ["tokenizers"],
    "HuggingFaceTokenizer": ["tokenizers", "tiktoken", "quicktok"],
}
VOCABULARY = 32000
# quicktok's vocabularies, with the patterns by their names in compare_with_packages.py: that of tokenizer.json,
# in the words of Hugging Face, and tiktoken's.
VOCABULARIES = {
    "cl100k_base": ("llama3", "cl100k"),
    "o200k_base": ("o200k", "o200k"),
    "llama3": ("llama3", "llama3"),
    "qwen3": ("qwen2", "qwen2"),
}


def parse_arguments():
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="30 MB a corpus")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--corpus", nargs="+", choices=KINDS, default=["english", "multilingual"])
    parser.add_argument("--model", nargs="+", metavar="TYPE=FILE")
    parser.add_argument("--vocabulary", nargs="+", choices=VOCABULARIES)
    parser.add_argument("--corpus-dir", default=os.path.join(cache, "bench"))
    parser.add_argument("--shared", default=os.environ.get("MEG_SHARED")
                        or os.path.join(ROOT, "..", "shared"))
    parser.add_argument("--program",
                        default=os.path.join(ROOT, "build", "release", "bench", "encode_bench"))
    parser.add_argument("--peer", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


def read_texts(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        yield data[at + 4:at + 4 + size].decode()
        at += 4 + size


def texts_of(path):
    """The corpus as the programs read it: a size and the bytes of each text."""
    converted = path + ".texts"
    if not os.path.exists(converted):
        with open(path, encoding="utf-8") as lines, open(converted + ".partial", "wb") as out:
            for line in lines:
                text = json.loads(line)["text"].encode()
                out.write(struct.pack("<I", len(text)) + text)
        os.rename(converted + ".partial", converted)
    return converted


def trained_models(arguments, texts):
    """A model of each kind, trained on the first 20 MB of a corpus."""
    import sentencepiece
    import tokenizers
    head, size = [], 0
    for text in read_texts(texts):
        head.append(text)
        size += len(text)
        if size > 20_000_000:
            break
    lines = [line for text in head for line in text.splitlines() if line.strip()]
    for kind in ["bpe", "unigram"]:
        path = os.path.join(arguments.corpus_dir, f"{kind}{VOCABULARY}.model")
        if not os.path.exists(path):
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines), model_prefix=path[:-6], model_type=kind,
                vocab_size=VOCABULARY, hard_vocab_limit=False, byte_fallback=True,
                minloglevel=2, input_sentence_size=200_000)
        yield "GPTSentencePieceTokenizer", path
    path = os.path.join(arguments.corpus_dir, f"wordpiece{VOCABULARY}.txt")
    if not os.path.exists(path):
        trained = tokenizers.BertWordPieceTokenizer(lowercase=True)
        trained.train_from_iterator(iter(lines), vocab_size=VOCABULARY, show_progress=False)
        vocabulary = sorted(trained.get_vocab().items(), key=lambda entry: entry[1])
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(token + "\n" for token, _ in vocabulary)
    yield "BertWordPieceLowerCase", path


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


def vocabulary_model(arguments, name):
    """A tokenizer.json of one of quicktok's vocabularies."""
    folder = os.path.join(arguments.corpus_dir, name)
    path = os.path.join(folder, "tokenizer.json")
    if os.path.exists(path):
        return "HuggingFaceTokenizer", path
    characters = byte_characters()

    def written(value):
        return "".join(characters[byte] for byte in value)

    values = byte_values(name)
    split = {"type": "Split", "pattern": {"Regex": PATTERNS[VOCABULARIES[name][0]]}, "behavior": "Isolated",
             "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {"type": "BPE", "ignore_merges": True, "vocab": {written(value): i for i, value in enumerate(values)},
             "merges": [list(map(written, pair)) for pair in merges_of(values)]}
    os.makedirs(folder, exist_ok=True)
    with open(path + ".partial", "w", encoding="utf-8") as out:
        json.dump({"version": "1.0", "added_tokens": [], "normalizer": None,
                   "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
                   "post_processor": None, "decoder": level, "model": model}, out)
    os.rename(path + ".partial", path)
    return "HuggingFaceTokenizer", path


def peer_encoder(peer, model):
    """A function from texts to an array of ids each, on one thread."""
    if peer == "sentencepiece":
        import sentencepiece
        processor = sentencepiece.SentencePieceProcessor(model_file=model)
        return lambda texts: processor.encode(texts, out_type="numpy", num_threads=1)
    vocabulary = os.path.basename(os.path.dirname(model))
    if peer == "tiktoken":
        encoding = tiktoken_of(byte_values(vocabulary), PATTERNS[VOCABULARIES[vocabulary][1]])
        return lambda texts: [encoding.encode_ordinary(text) for text in texts]
    if peer == "quicktok":
        import quicktok
        encoding = quicktok.get_encoding(vocabulary)
        return lambda texts: [encoding.encode_batch(texts, threads=1)[0]]
    import tokenizers
    tokenizer = (tokenizers.Tokenizer.from_file(model) if model.endswith(".json")
                 else tokenizers.BertWordPieceTokenizer(model, lowercase=True))
    return lambda texts: tokenizer.encode_batch(texts, add_special_tokens=False)


def run_peer(peer, model, texts_file, ids_file):
    """One measurement of a peer, in this process."""
    import time
    texts = list(read_texts(texts_file))
    encode = peer_encoder(peer, model)
    begin = time.process_time()
    encoded = encode(texts)
    seconds = time.process_time() - begin
    with open(ids_file, "wb") as out:
        for one in encoded:
            out.write(numpy.array(getattr(one, "ids", one), dtype=numpy.int32).tobytes())
    print(f"{seconds:.6f}")


def measure(command):
    environment = dict(os.environ, RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    output = subprocess.run(list(map(str, command)), env=environment, check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    return float(output.split()[0])


def same(first, second):
    """What share of the ids is the same, of two files."""
    one, two = numpy.fromfile(first, numpy.int32), numpy.fromfile(second, numpy.int32)
    return "equal" if numpy.array_equal(one, two) else f"differ ({len(one)} and {len(two)})"


def shown_name(model):
    path, name = os.path.split(model)
    return os.path.basename(path) if name == "tokenizer.json" else name


def compare(arguments, tokenizer_type, model, texts):
    megabytes = (os.path.getsize(texts)) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = os.path.join(folder, "ours"), os.path.join(folder, "theirs")
        for peer in PEERS[tokenizer_type]:
            times = {"libmeg": [], peer: []}
            measure([arguments.program, tokenizer_type, model, texts, ours])
            for _ in range(arguments.runs):
                times["libmeg"].append(measure([arguments.program, tokenizer_type, model, texts]))
                times[peer].append(
                    measure([sys.executable, __file__, "--peer", peer, model, texts, theirs]))
            ours_s, theirs_s = (statistics.median(times[name]) for name in ["libmeg", peer])
            print(f"| {os.path.basename(texts)} | {shown_name(model)} | "
                  f"{megabytes / ours_s:.0f} | {peer} {megabytes / theirs_s:.1f} | "
                  f"{theirs_s / ours_s:.1f} | {same(ours, theirs)} |", flush=True)


def main():
    arguments = parse_arguments()
    if arguments.peer:
        run_peer(*arguments.peer)
        return
    corpora = {kind: texts_of(corpus(arguments, kind)) for kind in arguments.corpus}
    if arguments.vocabulary:
        models = [vocabulary_model(arguments, name) for name in arguments.vocabulary]
    elif arguments.model:
        models = [named.split("=", 1) for named in arguments.model]
    else:
        models = list(trained_models(arguments, next(iter(corpora.values()))))
    print("| corpus | model | libmeg MB/s | peer MB/s | ratio | ids |\n|---|---|---:|---:|---:|---|")
    for texts in corpora.values():
        for tokenizer_type, model in models:
            compare(arguments, tokenizer_type, model, texts)


if __name__ == "__main__":
    main()
