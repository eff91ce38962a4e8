#!/usr/bin/env python3
"""Encoding in memory, one thread: libmeg beside other tokenizers.

encode_bench.py [--quick] [--runs N] [--corpus KIND ...] [--model TYPE=FILE ... | --vocabulary NAME ...]

Makes the corpora (300 MB each; --quick: 30 MB) with make_corpus.py of the shared folder and with
language_corpus.py. Without --model: a BPE, a Unigram and a WordPiece model, which are trained here,
once, on the first corpus, and the first two as tokenizer.json in the forms of Llama 2 and
XLM-RoBERTa. --vocabulary: the tokenizer.json of tokenizer_peers.py. Compares all ids, then times
fresh processes interleaved: every figure is a median, word caches are cold, imports and opening do
not count. Reports CPU seconds, so that other work on the machine matters little.
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
from language_corpus import LANGUAGES
from preprocess_bench import KINDS, ROOT, corpus

from tokenizer_peers import PACKAGES, VOCABULARIES, encoder, vocabulary_model

PEERS = {
    "GPTSentencePieceTokenizer": ["sentencepiece", "gigatoken"],
    "BertWordPieceLowerCase": ["tokenizers"],
    "HuggingFaceTokenizer": ["gigatoken", "fastokens", "quicktok", "tokie", "tiktoken", "tokenizers"],
}
# Of the models that are trained here: the others refuse them.
TRAINED_PEERS = {"bpe": ["sentencepiece", "gigatoken", "tokenizers"], "uni": ["sentencepiece", "tokenizers"]}
VOCABULARY = 32000


def parse_arguments():
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="30 MB a corpus")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--corpus", nargs="+", choices=[*KINDS, *LANGUAGES],
                        default=["english", "multilingual"])
    parser.add_argument("--model", nargs="+", metavar="TYPE=FILE")
    parser.add_argument("--vocabulary", nargs="+", choices=[*VOCABULARIES, *PACKAGES])
    parser.add_argument("--corpus-dir", default=os.path.join(cache, "bench"))
    parser.add_argument("--shared", default=os.environ.get("MEG_SHARED")
                        or os.path.join(ROOT, "..", "shared"))
    parser.add_argument("--program",
                        default=os.path.join(ROOT, "build", "release", "bench", "encode_bench"))
    parser.add_argument("--peers", nargs="+", help="only these")
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


def json_of(model, folder, kind):
    """The model as a tokenizer.json: BPE as Llama 2's, Unigram as XLM-RoBERTa's with byte_fallback."""
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    read = sentencepiece_model_pb2.ModelProto()
    with open(model, "rb") as file:
        read.ParseFromString(file.read())
    pieces = [piece.piece for piece in read.pieces]
    if kind == "bpe":
        ids = {piece: i for i, piece in enumerate(pieces)}
        cuts = [(piece[:at], piece[at:]) for piece in pieces for at in range(1, len(piece))]
        merges = [pair for pair in cuts if pair[0] in ids and pair[1] in ids]
        tokenizer = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    else:
        scores = [(piece.piece, piece.score) for piece in read.pieces]
        tokenizer = Tokenizer(models.Unigram(scores, unk_id=0, byte_fallback=True))
        tokenizer.normalizer = normalizers.Precompiled(read.normalizer_spec.precompiled_charsmap)
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    path = os.path.join(folder, kind, "tokenizer.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    tokenizer.save(path)
    return path


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
        yield "HuggingFaceTokenizer", json_of(path, arguments.corpus_dir, kind)
    path = os.path.join(arguments.corpus_dir, f"wordpiece{VOCABULARY}.txt")
    if not os.path.exists(path):
        trained = tokenizers.BertWordPieceTokenizer(lowercase=True)
        trained.train_from_iterator(iter(lines), vocab_size=VOCABULARY, show_progress=False)
        vocabulary = sorted(trained.get_vocab().items(), key=lambda entry: entry[1])
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(token + "\n" for token, _ in vocabulary)
    yield "BertWordPieceLowerCase", path


def run_peer(peer, model, texts_file, ids_file):
    """One measurement of a peer, in this process."""
    import time
    texts = list(read_texts(texts_file))
    encode = encoder(peer, model)
    begin = time.process_time()
    ids, _ = encode(texts)
    seconds = time.process_time() - begin
    numpy.asarray(ids).astype(numpy.int32).tofile(ids_file)
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
            if arguments.peers and peer not in arguments.peers:
                continue
            if peer not in TRAINED_PEERS.get(shown_name(model)[:3], PEERS[tokenizer_type]):
                continue
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
        models = [("HuggingFaceTokenizer", vocabulary_model(arguments.corpus_dir, name))
                  for name in arguments.vocabulary]
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
