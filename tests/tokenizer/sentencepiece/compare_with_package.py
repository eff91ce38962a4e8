#!/usr/bin/env python3
"""SentencePiece models: libmeg's ids and texts against the PyPI package `sentencepiece`.

usage: compare_with_package.py TOKENIZE_TEXTS [MODEL ...]
Without MODEL: those of the oracle, those that the package mistral-common ships, where it is
installed, and models that are trained here in many configurations.
Exit status 77 (skipped) where `sentencepiece` is absent or older than 0.2.3, whose score of
user-defined symbols is another one.
"""
import importlib.util
import io
import os
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from texts_to_tokenize import WORDS, decode, encode, random_text

SKIPPED = 77
TEXTS = int(os.environ.get("MEG_TEXTS", "300"))  # random ones, for each model
INSTRUCTION_SETS = ["avx512", "avx2", "portable"]  # in turns; the first that there is, where one lacks
SHARED = Path(os.environ.get("MEG_SHARED", Path(__file__).parents[4] / "shared"))


def corpus(chooser):
    """Lines to train on: words by a skewed choice, so that there is something to learn."""
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    for _ in range(1000):
        yield " ".join(chooser.choices(WORDS, weights, k=chooser.randrange(1, 20)))


# Some rules: one to nothing, one to a space, one to several characters, a sequence.
RULES = "61\t\n62\t20\n63\t78 79 7A\n64 65\t2581\n1F642\t3A 29\n"
SPACE_RULES = "9\t20\nA\t20\nD\t20\n"

CONFIGURATIONS = [
    {"model_type": kind, **options}
    for kind in ["unigram", "bpe"]
    for options in [
        {},
        {"byte_fallback": True},
        {"normalization_rule_name": "identity", "remove_extra_whitespaces": False,
         "byte_fallback": True, "split_digits": True, "allow_whitespace_only_pieces": True},
        {"add_dummy_prefix": False, "normalization_rule_name": "nfkc_cf"},
        {"treat_whitespace_as_suffix": True, "user_defined_symbols": "<|user|>,ing,ＡＢ,▁▁"},
        {"split_by_whitespace": False, "user_defined_symbols": "the,there,<sep0>,0,é"},
        {"user_defined_symbols": "the of,a,▁,it", "byte_fallback": True},
        {"split_by_unicode_script": False, "split_by_number": False,
         "remove_extra_whitespaces": False, "normalization_rule_name": "nmt_nfkc"},
        {"character_coverage": 0.98, "unk_surface": "<?>", "unk_piece": "[UNK]",
         "bos_piece": "[BOS]", "eos_id": -1, "pad_id": 2},
        {"normalization_rule_tsv": RULES},
        {"normalization_rule_tsv": SPACE_RULES},
        {"normalization_rule_tsv": SPACE_RULES + "D A\t20\n", "byte_fallback": True},
        {"user_defined_symbols": "\t\t,\r\n\n", "byte_fallback": True},
    ]
] + [{"model_type": "char"}, {"model_type": "char", "byte_fallback": True,
                              "user_defined_symbols": "the,<sep0>"},
     {"model_type": "word"}]


def trained_models(package, folder):
    lines = list(corpus(random.Random(7)))
    rules = Path(folder) / "rules.tsv"
    for number, configuration in enumerate(CONFIGURATIONS):
        options = dict(configuration)
        if "normalization_rule_tsv" in options:
            rules.write_text(options["normalization_rule_tsv"])
            options["normalization_rule_tsv"] = str(rules)
        written = io.BytesIO()
        package.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=written, vocab_size=450,
            hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
        path = Path(folder) / f"trained{number}.model"
        path.write_bytes(written.getvalue())
        yield f"trained {configuration}", path
    yield from changed_models(folder)


def changed_models(folder):
    """Models that no training gives: unused pieces, a denormalizer, no escaped spaces."""
    from sentencepiece import sentencepiece_model_pb2
    for number in range(len(CONFIGURATIONS)):
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString((Path(folder) / f"trained{number}.model").read_bytes())
        chooser = random.Random(number)
        for piece in proto.pieces:
            if piece.type == 1 and chooser.random() < 0.05:
                piece.type = 5
            if piece.type == 1 and chooser.random() < 0.3:
                piece.score = round(piece.score)
        if number % 3 == 1:
            proto.denormalizer_spec.CopyFrom(proto.normalizer_spec)
        if number % 3 == 2:
            proto.normalizer_spec.escape_whitespaces = False
            for piece in proto.pieces:
                piece.piece = piece.piece.replace("▁", " ") if chooser.random() < 0.9 else piece.piece
            seen = set()
            kept = [p for p in proto.pieces if not (p.piece in seen or seen.add(p.piece))]
            proto.ClearField("pieces")
            proto.pieces.extend(kept)
        path = Path(folder) / f"changed{number}.model"
        path.write_bytes(proto.SerializeToString())
        yield f"changed {CONFIGURATIONS[number]}", path


def shipped_models():
    for path in sorted((SHARED / "oracle/datasets/tok").glob("*.model")):
        yield path.name, path
    found = importlib.util.find_spec("mistral_common")
    if found is not None:
        for path in sorted((Path(found.origin).parent / "data").glob("*.model.v*")):
            yield path.name, path


def compare(program, processor, path, texts):
    """The first difference, or None."""
    encoded = []
    for text, found in zip(texts, encode(program, "sentencepiece", path, texts)):
        expected = processor.encode(text)
        if found != expected:
            return f"{text!a}\nexpected {expected}\nfound    {found}"
        encoded.append(expected)
    chooser = random.Random(3)
    size = processor.get_piece_size()
    encoded += [[chooser.randrange(size) for _ in range(chooser.randrange(12))] for _ in range(500)]
    for ids, text in zip(encoded, decode(program, "sentencepiece", path, encoded)):
        if processor.decode(ids) != text:
            return f"{ids}\nexpected {processor.decode(ids)!a}\nfound    {text!a}"
    return None


def main():
    try:
        import sentencepiece
    except ImportError:
        print("skipped: the Python package sentencepiece is not installed")
        return SKIPPED
    if tuple(map(int, sentencepiece.__version__.split(".")[:3])) < (0, 2, 3):
        print(f"skipped: sentencepiece {sentencepiece.__version__} is older than 0.2.3")
        return SKIPPED
    program, *named = sys.argv[1:]
    chooser = random.Random(20240229)
    texts = ["", " ", "  ", "\x00", "▁", "a", "\ufffd"]
    texts += [random_text(chooser) for _ in range(TEXTS)]
    texts += ["".join(chooser.choices(" \t\n\r\u3000a.,é中", [8, 2, 2, 2, 1, 8, 2, 2, 2, 2], k=200))
              for _ in range(TEXTS // 10)]
    texts.append("".join(random_text(chooser) for _ in range(200)))
    texts.append(chooser.choice(WORDS) * 2000)
    with tempfile.TemporaryDirectory() as folder:
        models = [(name, Path(name)) for name in named]
        if not named:
            models = [*shipped_models(), *trained_models(sentencepiece, folder)]
        for number, (name, path) in enumerate(models):
            os.environ["MEG_INSTRUCTION_SET"] = INSTRUCTION_SETS[number % len(INSTRUCTION_SETS)]
            try:
                processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
            except RuntimeError as error:
                print(f"{name}: the package refuses it: {error}")
                continue
            difference = compare(program, processor, path, texts)
            if difference:
                print(f"{name}: {difference}")
                return 1
            print(f"{name}: equal", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
