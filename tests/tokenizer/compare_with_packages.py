#!/usr/bin/env python3
"""Random texts: libmeg's ids against the PyPI packages `tokenizers` and `tiktoken`.

usage: compare_with_packages.py ENCODE_TEXTS PAGES [SECONDS]
The tokenizers are made here: small ones of every kind, trained on the folder PAGES or on made words of Chinese, Japanese and
Korean characters, and those of the vocabularies that the PyPI package `quicktok-v1` brings. SECONDS: goes on with other texts
until so many have passed. Exit status 77 (skipped) where one of the packages is absent.
"""
import base64
import itertools
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from cjk_texts import cjk_corpus, is_assigned, texts_of_boundaries, untrained_values
from compare_with_python import SKIPPED, byte_characters, encode_with_libmeg, random_text

TEXTS = int(os.environ.get("MEG_TEXTS", "200"))  # random ones, for each tokenizer
CORPUS = 40_000  # characters, so that more pages do not make more to train on
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WHITESPACE = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(suffix):
    prefix = r"[^\r\n\p{L}\p{N}]?"
    return f"{prefix}{UPPER}*{LOWER}+{suffix}|{prefix}{UPPER}+{LOWER}*{suffix}"


PATTERNS = {
    "llama3": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + WHITESPACE,
    "qwen2": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + WHITESPACE,
    "qwen3.5": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + WHITESPACE,
    "o200k": cased(CONTRACTIONS + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + WHITESPACE,
    "v2": cased("") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + WHITESPACE,
    "v1": r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
              r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
}
INTERVALS_AND_LINES = [r"\p{N}{2}+", r"(?:th|[ai]){1,2}+", r"e{2}?.", r"\s{,2}t", r"^\S+|\S$", r" {2}+\p{L}{3}+"]
CODES = [r"\u0065+", r"[^\u0061-\u4e2d\u4E2D]?\u0065|\u0020(?=\u0074)", r"[\u4e00-\u9fa5]+|[a-z\u00e9]+"]
CLASSES = [r"\w+|[^\w\s]+", r"\d{1,3}(?=(?:\d{3})*\b)|\R", r"[[:alnum:]_']+|[^[:word:]]"]
REPLACED = [r"\d", r"\D\d", r"[^\d\s]\b", r"\w\B", r"[\w']+$", r"\W+", r"\h{2}", r"\H\h", r"\R", "[[:alpha:]]{2}",
            "[[:^alnum:][:print:]]{3}", "[[:word:]&&[:graph:]]", r"\p{Alphabetic}\P{Alphabetic}", r"(?i)e\w", r"(?i)[\d]+"]
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*" + WHITESPACE,
]
NESTED_BRACKETS = [
    r" ?[^(\s|[.,!?…。，、।۔،])]+",  # BLOOM's
    r"[\p{Lu}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lo}\p{M}&&[^\p{Han}]]+|[\p{L}&&\p{Han}]+",  # as in Kimi's
    r"[^[a-k]&&\S]+", r"[[é-ü][\x{e9}\u00e9b-]\]]+", r"x[a-c&&[d]]|[^[^\n\t]]", r"[[:space:]]+", r"[[:punct:]&&[^[:^ascii:]']]|[[:^punct:][:cntrl:]]{2}",
    r"[[:digit:]a-c]+|[^[:xdigit:][:blank:]]", r"[\p{^N}&&[^\P{Lu}a]&&[^[B-D]E]]",
]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def with_line_ends(patterns):
    """As DeepSeek's own files have them: not escaped."""
    return [pattern.replace(r"\r", "\r").replace(r"\n", "\n") for pattern in patterns]


def texts_of(chooser, corpus):
    pieces = ["<s>", "<mask>", " <mask> ", "<|end|>", "'\u017f", "'S", "'LL", "don't", "HTTPServer", "\u0301", "\r\n",
              "\u180e", "\u2581", "/\n", "1234567", "\u0130", "\ufb01", "A\u030a", "\uac00\u11a8", "\U00011938", "\u0915", "\u094d", "\u0958", "\u0301", "A", "\u00b2", "\u00bd1"]
    texts = []
    while len(texts) < TEXTS:
        start = chooser.randrange(len(corpus))
        text = chooser.choice([
            random_text(chooser),
            corpus[start:start + chooser.choice([5, 50, 500])],
            "".join(chooser.choices(pieces + [" ", "  ", "\n", "a", "B", "\u4e2d"], k=chooser.randrange(1, 20)))])
        texts.append("".join(filter(is_assigned, text)))
    texts += ["A\u0897A\u1acfA\ua7dcA\u1c89A\U00010d40A\U0001cc00", "1\U00011de02\U00016ff4"]  # new in Unicode 16 and 17
    texts += ["\u0915\u094d\u0958\u0301", "\u0600A\u0301\U000113d1A\u0301", "\U00011a3aA\u0301"]
    texts += ["", " ", "\n", "a" * 2000, "ab " * 3000, " " * 3000, "\u4e2d" * 1000, "9" * 2000, "\n \n" * 1000,
              "'s" * 2000, "!" * 2000]
    return texts


def byte_level(corpus, pre_tokenizer, **options):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE(ignore_merges=options.get("ignore_merges", False)))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1500, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([corpus], trainer)
    if "normalizer" in options:
        tokenizer.normalizer = options["normalizer"]
    return tokenizer


def without_every_byte(corpus, pre_tokenizer, **options):
    """Trained as many are, without initial_alphabet: the vocabulary has the bytes of its corpus alone."""
    from tokenizers import Tokenizer, decoders, models, trainers
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    special = [options["unk_token"]] if "unk_token" in options else []
    tokenizer.train_from_iterator([corpus.encode("ascii", "ignore").decode()], trainers.BpeTrainer(
        vocab_size=900, show_progress=False, special_tokens=special))
    return tokenizer


def with_affixes(corpus, pre_tokenizer, normalizer=None, **options):
    """Tokens that show where a word begins or ends, as in GPT-1's and CLIP's files."""
    from tokenizers import Tokenizer, decoders, models, trainers
    affixes = {key: options[key] for key in ("continuing_subword_prefix", "end_of_word_suffix") if key in options}
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.BPEDecoder(suffix=options.get("end_of_word_suffix", "</w>"))
    special = [options["unk_token"]] if "unk_token" in options else []
    tokenizer.train_from_iterator([corpus], trainers.BpeTrainer(vocab_size=1500, show_progress=False, special_tokens=special,
                                                                **affixes))
    return tokenizer


def of_characters(corpus, **options):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    model = models.BPE(unk_token="<unk>", fuse_unk=options.get("fuse_unk", True))
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=True)
    alphabet = [f"<0x{byte:02X}>" for byte in range(256)] if options.get("byte_fallback") else []
    trainer = trainers.BpeTrainer(vocab_size=1500, show_progress=False, special_tokens=["<unk>", "<s>", *alphabet])
    tokenizer.train_from_iterator([corpus], trainer)
    described = json.loads(tokenizer.to_str())
    described["model"]["byte_fallback"] = options.get("byte_fallback", False)
    described["added_tokens"] = [token for token in described["added_tokens"] if not token["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(described))
    if options.get("prepend"):
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        tokenizer.pre_tokenizer = None
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(**options["metaspace"])
    return tokenizer


def add_tokens(tokenizer):
    from tokenizers import AddedToken
    tokenizer.add_special_tokens([AddedToken("<s>"), AddedToken("<|end|>", rstrip=True)])
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True, normalized=False), AddedToken("Server", single_word=True),
                          AddedToken("\u00e9t", normalized=True), AddedToken("HTTP", normalized=False)])
    return tokenizer


def made_tokenizers(corpus):
    from tokenizers import Regex, normalizers, pre_tokenizers
    sequence = pre_tokenizers.Sequence
    bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def split(pattern, behavior="isolated", invert=False):
        return pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)

    for name in ("llama3", "qwen2", "qwen3.5", "o200k", "v2", "cl100k"):
        yield name, byte_level(corpus, sequence([split(PATTERNS[name]), bytes_alone]))
    for ignore_merges in (False, True):
        yield f"cjk {ignore_merges}", byte_level(cjk_corpus(random.Random(18)), sequence([split(PATTERNS["llama3"]), bytes_alone]),
                                                 ignore_merges=ignore_merges)
    for pattern in INTERVALS_AND_LINES + CODES + CLASSES + NESTED_BRACKETS:
        yield pattern, byte_level(corpus, sequence([split(pattern), bytes_alone]))
    yield "removed", byte_level(corpus, sequence([split(PATTERNS["llama3"], "removed", True), bytes_alone]))
    yield "gpt2", byte_level(corpus, pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield "prefix space", byte_level(corpus, pre_tokenizers.ByteLevel(add_prefix_space=True))
    yield "deepseek", byte_level(corpus, sequence([*map(split, DEEPSEEK), bytes_alone]))
    yield "line ends", byte_level(corpus, sequence([*map(split, with_line_ends(DEEPSEEK)), bytes_alone]))
    yield "line ends too", byte_level(corpus, sequence([*map(split, with_line_ends([PATTERNS["o200k"]])), bytes_alone]))
    yield "gpt2 split", byte_level(corpus, sequence([split(GPT2), bytes_alone]))
    yield "digits", byte_level(corpus, sequence([pre_tokenizers.Digits(individual_digits=True),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    # As in Falcon's files: what comes after ByteLevel sees its characters, of which a byte such as 0xB2 is a number.
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    yield "falcon", byte_level(corpus, sequence([pre_tokenizers.Punctuation("contiguous"), level,
                                                 pre_tokenizers.Digits(individual_digits=False), split("[0-9][0-9][0-9]")]))
    for step in (pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Punctuation(), split(PATTERNS["llama3"]),
                 split(GPT2, "merged_with_next"), split(r"\p{L}{2}", "removed")):
        yield f"after bytes {step}", byte_level(corpus, sequence([level, step]))
        yield f"after bytes alone {step}", byte_level(corpus, sequence([bytes_alone, step]))
    for behavior in ("merged_with_previous", "merged_with_next", "contiguous", "removed"):
        yield behavior, byte_level(corpus, sequence([split(r"\s", behavior), bytes_alone]))
    yield "punctuation", byte_level(corpus, sequence([pre_tokenizers.Punctuation(), bytes_alone]))
    yield "whitespace", byte_level(corpus, sequence([pre_tokenizers.WhitespaceSplit(), bytes_alone]))
    alphabet = normalizers.ByteLevel()
    yield "bytes by a normalizer", add_tokens(byte_level(alphabet.normalize_str(corpus), split("\u0120", "merged_with_next"),
                                                         normalizer=normalizers.Sequence([normalizers.NFC(), alphabet])))
    scripts = pre_tokenizers.UnicodeScripts()
    for steps in ([scripts, level], [pre_tokenizers.Whitespace(), scripts, bytes_alone], [level, scripts]):
        yield f"scripts {len(steps)}", byte_level(corpus, sequence(steps))
    yield "no words", byte_level(corpus, bytes_alone)
    for words in (level, sequence([split(PATTERNS["o200k"]), bytes_alone])):
        yield "lost bytes", without_every_byte(corpus, words)
        yield "unknown bytes", without_every_byte(corpus, words, unk_token="<unk>")
        yield "unknown bytes fused", without_every_byte(corpus, words, unk_token="<unk>", fuse_unk=True, ignore_merges=True)
    clip = sequence([split(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "removed", True), level])
    yield "clip", with_affixes(corpus, clip, normalizers.Lowercase(), end_of_word_suffix="</w>", unk_token="<unk>")
    yield "gpt", with_affixes(corpus, pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer(),
                              end_of_word_suffix="</w>", unk_token="<unk>", fuse_unk=True)
    yield "prefix", with_affixes(corpus, pre_tokenizers.WhitespaceSplit(), continuing_subword_prefix="##", unk_token="<unk>")
    yield "both affixes", with_affixes(corpus, pre_tokenizers.Whitespace(), continuing_subword_prefix="\u0120",
                                       end_of_word_suffix="\u2581")
    yield "affixes of spaced words", with_affixes(corpus, pre_tokenizers.Metaspace(split=False),
                                                  continuing_subword_prefix="@", end_of_word_suffix=".", unk_token="<unk>")
    yield "ignore_merges", byte_level(corpus, pre_tokenizers.ByteLevel(add_prefix_space=False), ignore_merges=True)
    for form in (normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(),
                 normalizers.Lowercase(), normalizers.StripAccents(), normalizers.Strip(),
                 normalizers.Replace(Regex(r"\s+"), " "),
                 normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])):
        yield str(form), add_tokens(
            byte_level(corpus, pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=form))
    for pattern in REPLACED:
        yield f"replaced {pattern}", byte_level(corpus, level, normalizer=normalizers.Replace(Regex(pattern), "#"))
    yield "added", add_tokens(byte_level(corpus, sequence([split(PATTERNS["o200k"]), bytes_alone])))
    yield "llama2", of_characters(corpus, prepend=True, byte_fallback=True)
    yield "unknown", of_characters(corpus, prepend=True)
    yield "unknown apart", of_characters(corpus, prepend=True, fuse_unk=False)
    for scheme in ("always", "first", "never"):
        for whole in (True, False):
            yield f"metaspace {scheme} {whole}", add_tokens(
                of_characters(corpus, byte_fallback=True, metaspace={"prepend_scheme": scheme, "split": whole}))
            for step in (pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Punctuation("merged_with_previous"),
                         split(r"\u2581\p{L}", "contiguous"), sequence([split(PATTERNS["llama3"]), split(" ", "removed")])):
                made = of_characters(corpus, byte_fallback=whole, metaspace={"prepend_scheme": scheme, "split": whole})
                made.pre_tokenizer = sequence([made.pre_tokenizer, step])
                yield f"after metaspace {scheme} {whole} {step}", made
    for seed in range(12):
        yield f"joined {seed}", joined_at_random(random.Random(seed))


# What models of characters may be cut beside: space marks, punctuation, digits, characters of three bytes.
JOINED = "ab.,(01\n \u2581\u2581\u00e9\u0434\u0436\u2014\u4e2d\u6587\u5b57\u3042\uff0c\ud55c\U0001f642"


def joined_at_random(chooser):
    """A model of characters whose merges no training gives: across whatever words could be cut at."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    pieces = sorted(character for character in set(JOINED) - {" "} if chooser.random() < 0.85)
    merges = []
    for _ in range(chooser.choice((20, 60, 200))):
        pair = (chooser.choice(pieces), chooser.choice(pieces))
        if len("".join(pair)) <= 6 and pair not in merges:
            merges.append(pair)
            pieces.append("".join(pair))
    tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *dict.fromkeys(pieces)]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges, unk_token="<unk>",
                                     fuse_unk=chooser.random() < 0.5, byte_fallback=chooser.random() < 0.9))
    kind = chooser.randrange(4)
    if kind < 2:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581")][:kind] +
                                                    [normalizers.Replace(" ", "\u2581")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
            prepend_scheme=chooser.choice(("always", "first", "never")), split=kind == 2)
    return tokenizer


def joined_texts(chooser, count):
    lengths = (1, 3, 10, 40, 200)
    texts = ["".join(chooser.choices(JOINED, k=chooser.choice(lengths))) for _ in range(count)]
    return texts + ["".join(chooser.choices(JOINED, k=9000)) for _ in range(2)]  # of several calls of a scanner


def charsmap(rule):
    """The rules of a SentencePiece model, which its field precompiled_charsmap (2) of normalizer_spec (3) holds."""
    import io

    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c d"] * 9), model_writer=model, vocab_size=12,
                                             normalization_rule_name=rule, hard_vocab_limit=False,
                                             minloglevel=9)
    data = model.getvalue()

    def fields(data):
        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value

        at = 0
        while at < len(data):
            key = varint()
            if key & 7 == 0:
                varint()
                continue
            size = 4 if key & 7 == 5 else varint()
            yield key >> 3, data[at:at + size]
            at += size

    spec = dict(fields(data))[3]
    return dict(fields(spec))[2]


def unigram(corpus, normalizer, pre_tokenizer, byte_fallback=False, unk_token="<unk>", **settings):
    from tokenizers import Tokenizer, decoders, models, trainers
    tokenizer = Tokenizer(models.Unigram())
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.UnigramTrainer(vocab_size=1200, show_progress=False, unk_token=unk_token,
                                      special_tokens=[unk_token, "<s>"] if unk_token else [])
    tokenizer.train_from_iterator(corpus.split("\n"), trainer)
    tokenizer.decoder = decoders.Metaspace()
    described = json.loads(tokenizer.to_str())
    model = described["model"]
    if byte_fallback:
        model["vocab"] += [[f"<0x{byte:02X}>", 0.0] for byte in range(256)]
        model["byte_fallback"] = True
    model.update(settings)
    return Tokenizer.from_str(json.dumps(described))


def tied_unigram():
    """Ways of equal and nearly equal sums, a known unknown token, pieces of several words, scores above zero."""
    from tokenizers import Tokenizer, models
    pieces = [("<unk>", 0.0), ("a", -1.0), ("b", -1.0), ("ab", -2.0), ("ba", -2.0), ("aa", -2.0), ("bab", -3.0),
              ("aab", -3.0000000000000004), ("\u2581", -0.1), ("\u2581a", -1.1), ("\u4e2d\u4e2d", 30.0), ("x y", -3.0),
              ("\n\n", -1.0), ("<un", -1.0), ("k>", -1.0), ("9", -0.3), ("99", -0.6), ("999", -0.8999999999999999)]
    return Tokenizer(models.Unigram(pieces, 0, False))


def word_piece(corpus, normalizer, pre_tokenizer, **settings):
    from tokenizers import Tokenizer, decoders, models, trainers
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.WordPieceTrainer(vocab_size=1500, show_progress=False,
                                        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>"])
    tokenizer.train_from_iterator(corpus.split("\n"), trainer)
    tokenizer.decoder = decoders.WordPiece()
    described = json.loads(tokenizer.to_str())
    described["model"].update(settings)
    return Tokenizer.from_str(json.dumps(described))


def word_level(corpus, pre_tokenizer):
    from tokenizers import Tokenizer, models, trainers
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator([corpus], trainers.WordLevelTrainer(vocab_size=900, show_progress=False,
                                                                      special_tokens=["[UNK]"]))
    return tokenizer


def tokenizers_of_words(corpus):
    from tokenizers import Regex, normalizers, pre_tokenizers
    sequence = pre_tokenizers.Sequence
    metaspace = pre_tokenizers.Metaspace
    xlm_roberta = normalizers.Sequence([normalizers.Precompiled(charsmap("nmt_nfkc")),
                                        normalizers.Replace(Regex(" {2,}"), " ")])
    albert = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
                                   normalizers.StripAccents(), normalizers.Lowercase(),
                                   normalizers.Precompiled(charsmap("nfkc_cf")),
                                   normalizers.Replace(Regex(" {2,}"), " ")])
    t5 = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    yield "xlm-roberta", add_tokens(unigram(corpus, xlm_roberta, sequence([pre_tokenizers.WhitespaceSplit(), metaspace()])))
    yield "albert", add_tokens(unigram(corpus, albert, sequence([pre_tokenizers.WhitespaceSplit(), metaspace()])))
    yield "t5", unigram(corpus, t5, metaspace())
    yield "t5 bytes", unigram(corpus, t5, metaspace(), byte_fallback=True)
    yield "mbart", unigram(corpus, normalizers.Precompiled(charsmap("nfkc")), metaspace(prepend_scheme="first"))
    yield "unigram digits", unigram(corpus, None, sequence([pre_tokenizers.Digits(), metaspace(prepend_scheme="first")]))
    yield "unigram after metaspace", unigram(corpus, None, sequence([metaspace(prepend_scheme="first"),
                                                                    pre_tokenizers.Punctuation()]))
    yield "unigram of scripts", unigram(corpus, None, sequence([pre_tokenizers.UnicodeScripts(), metaspace()]))
    yield "unigram alone", unigram(corpus, None, None)
    yield "unigram whole", unigram(corpus, normalizers.Strip(), metaspace(split=False))
    yield "unigram ties", tied_unigram()
    yield "unigram without unknown", unigram(corpus, None, metaspace(), unk_token=None)
    for lowercase, strip, chinese, clean in ((True, None, True, True), (False, None, True, True), (True, False, False, True),
                                             (False, True, True, False)):
        yield f"bert {lowercase} {strip}", add_tokens(word_piece(
            corpus, normalizers.BertNormalizer(clean, chinese, strip, lowercase), pre_tokenizers.BertPreTokenizer()))
    bert = normalizers.BertNormalizer()
    yield "short words", word_piece(corpus, bert, pre_tokenizers.Whitespace(), max_input_chars_per_word=5)
    yield "other prefix", word_piece(corpus, bert, pre_tokenizers.BertPreTokenizer(), continuing_subword_prefix="")
    yield "word piece metaspace", word_piece(corpus, bert, metaspace())
    yield "without unknown", word_piece(corpus, bert, pre_tokenizers.Whitespace(), unk_token="[NONE]")
    for step in (pre_tokenizers.Whitespace(), pre_tokenizers.CharDelimiterSplit("-"), pre_tokenizers.FixedLength(3),
                 pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(), pre_tokenizers.WhitespaceSplit(),
                 sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]),
                 pre_tokenizers.Split("e", "merged_with_next")):
        yield f"words of {step}", word_level(corpus, step)


def ids_of(tokenizer, texts):
    """None for a text that has no ids."""
    def of(text):
        try:
            return tokenizer.encode(text, add_special_tokens=False).ids
        except Exception:  # noqa: BLE001: the package raises no other kind
            return None

    return list(map(of, texts))


def compare(name, texts, expected, found):
    for text, wanted, ids in zip(texts, expected, found, strict=True):
        if wanted != ids:
            print(f"{name}: {ascii(text[:300])}\nexpected {wanted and wanted[:60]}\nfound    {ids and ids[:60]}")
            return False
    return True


def byte_values(tokenizer):
    """The tokens' bytes, by id."""
    bytes_of = {character: byte for byte, character in byte_characters().items()}
    known = tokenizer.get_vocab()
    return [bytes(map(bytes_of.get, token)) for token in sorted(known, key=known.get)]


def tiktoken_of(values, pattern):
    import tiktoken
    return tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks={v: i for i, v in enumerate(values)},
                             special_tokens={})


def rank_vocabularies():
    import quicktok
    from tokenizers import pre_tokenizers
    bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trained = byte_level(cjk_corpus(random.Random(19)), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), bytes_alone]))
    for pattern in ("cl100k", "o200k"):
        yield "cjk", pattern, byte_values(trained)
    yield "untrained", "cl100k", untrained_values(random.Random(20))
    for encoding, pattern in (("cl100k_base", "cl100k"), ("o200k_base", "o200k"), ("llama3", "llama3"),
                              ("qwen3", "qwen2")):
        known = quicktok.get_encoding(encoding)
        values = sorted(known.token_byte_values(), key=known.encode_single_token)
        yield encoding, pattern, values
    small = [bytes([byte]) for byte in range(256)] + [b"th", b"the", b" t", b" the", b"in", b"aa", b"aaa"]
    for pattern in ("v1", "v2"):
        yield "small", pattern, small


def compare_split(program, path, name, tokenizer, texts):
    """The same with special tokens that are ordinary text."""
    config = path.with_name("tokenizer_config.json")
    config.write_text('{"split_special_tokens": true}')
    tokenizer.encode_special_tokens = True
    expected = ids_of(tokenizer, texts)
    tokenizer.encode_special_tokens = False  # for the next round
    found = list(encode_with_libmeg(program, ["huggingface", str(path)], texts))
    config.unlink()
    return compare(f"{name}, special tokens split", texts, expected, found)


def compare_all(program, folder, texts, made, ranked, chooser):
    right = True
    path = folder / "tokenizer.json"
    for name, tokenizer in made:
        tokenizer.save(str(path))
        some = texts + (texts_of_boundaries(chooser, byte_values(tokenizer), TEXTS) if name.startswith("cjk") else [])
        some += joined_texts(chooser, TEXTS // 4) if name.startswith("joined") else []
        expected = ids_of(tokenizer, some)
        right &= compare(name, some, expected, encode_with_libmeg(program, ["huggingface", str(path)], some))
        right &= compare_split(program, path, name, tokenizer, some[::4])
    for name, pattern, values in ranked:
        ranks = folder / "ranks.tiktoken"
        ranks.write_text("".join(f"{base64.b64encode(v).decode()} {i}\n" for i, v in enumerate(values)))
        reference = tiktoken_of(values, PATTERNS[pattern])
        some = texts + texts_of_boundaries(chooser, values, TEXTS)
        expected = [reference.encode_ordinary(text) for text in some]
        right &= compare(f"{name} {pattern}", some, expected,
                         encode_with_libmeg(program, ["tiktoken", str(ranks), pattern], some))
    return right


def main():
    try:
        import quicktok  # noqa: F401
        import tiktoken  # noqa: F401
        import tokenizers  # noqa: F401
    except ImportError as error:
        print(f"skipped: the Python package {error.name} is not installed")
        return SKIPPED
    program = sys.argv[1]
    pages = sorted(Path(sys.argv[2]).glob("*.md"))
    until = time.monotonic() + float(sys.argv[3] if len(sys.argv) > 3 else 0)
    # Some of the pre-tokenizers leave the corpus one word, which takes the package time that grows with its square.
    corpus = "\n".join(page.read_text(encoding="utf-8")[:CORPUS // len(pages)] for page in pages)
    made = list(itertools.chain(tokenizers_of_words(corpus), made_tokenizers(corpus)))
    ranked = list(rank_vocabularies())
    right = True
    with tempfile.TemporaryDirectory() as folder:
        for turn in itertools.count():
            chooser = random.Random(20240229 + turn)
            right &= compare_all(program, Path(folder), texts_of(chooser, corpus), made, ranked, chooser)
            if not right or time.monotonic() >= until:
                break
        print(f"{turn + 1} rounds")
    print("equal" if right else "different")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
