"""Tokenizer beside the packages whose ids it has to give."""

import json
import multiprocessing
import os
import pathlib
import pickle
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import libmeg

TESTDATA = pathlib.Path(__file__).resolve().parents[2] / "testdata"
SHARED = pathlib.Path(os.environ.get("MEG_SHARED", TESTDATA.parents[1] / "shared")) / "oracle" / "datasets"
CORPUS = TESTDATA / "quickstart" / "english.jsonl"
GPT2 = {
    "tokenizer_type": "GPT2BPETokenizer",
    "vocab_file": TESTDATA / "tokenizer" / "vocab.json",
    "merge_file": TESTDATA / "tokenizer" / "merges.txt",
}


def random_text(chooser):
    blocks = [(0x20, 0x7F), (0xA0, 0x250), (0x400, 0x500), (0x4E00, 0x4F00), (0x1F600, 0x1F640), (0, 0x20)]
    return "".join(
        chr(chooser.randrange(*chooser.choice(blocks))) for _ in range(chooser.choice([0, 1, 5, 60, 500]))
    )


@pytest.fixture(scope="module")
def texts():
    chooser = random.Random(1)
    lines = CORPUS.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines] + [random_text(chooser) for _ in range(300)]


@pytest.fixture(scope="module")
def gpt2():
    return libmeg.Tokenizer.open(**GPT2)


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory):
    """A tokenizer.json of Hugging Face's package, and the package's own tokenizer."""
    tokenizers = pytest.importorskip("tokenizers")
    peer = tokenizers.ByteLevelBPETokenizer(str(GPT2["vocab_file"]), str(GPT2["merge_file"]))
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    peer.save(str(path))
    return path, peer


def split(ids, offsets):
    return [ids[begin:end].tolist() for begin, end in zip(offsets[:-1], offsets[1:])]


# ---- Ids and texts of the neighbours ----


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_a_batch_has_the_ids_of_tokenizers(byte_level, texts, threads):
    path, peer = byte_level
    ids, offsets = libmeg.Tokenizer.open(path).encode_batch(texts, threads=threads)
    assert ids.dtype == np.int32 and offsets.dtype == np.int64 and offsets[0] == 0
    assert split(ids, offsets) == [encoding.ids for encoding in peer.encode_batch(texts)]


def test_the_folder_of_a_tokenizer_names_it(byte_level, texts):
    path, peer = byte_level
    tokenizer = libmeg.Tokenizer.open(str(path.parent))
    assert tokenizer.tokenizer_type == "HuggingFaceTokenizer"
    assert tokenizer.encode(texts[0]).tolist() == peer.encode(texts[0]).ids


def test_decoding_gives_the_text_of_tokenizers(byte_level, texts):
    path, peer = byte_level
    tokenizer = libmeg.Tokenizer.open(path)
    chooser = random.Random(2)
    for text in texts:
        ids = peer.encode(text).ids
        assert tokenizer.decode(ids) == text
    for _ in range(300):
        ids = [chooser.randrange(tokenizer.vocab_size) for _ in range(50)]
        expected = peer.decode(ids, skip_special_tokens=False)
        assert tokenizer.decode(np.array(ids)) == expected
        assert "".join(tokenizer.decode_stream(iter(ids))) == expected


@pytest.mark.parametrize("name", ["hf_llama2", "hf_llama3", "hf_qwen2", "hf_o200k", "hf_gpt2"])
def test_published_tokenizers_have_the_ids_of_transformers(texts, name):
    if not (SHARED / "tok" / name).exists():
        pytest.skip("no golden tokenizers")
    transformers = pytest.importorskip("transformers")
    peer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(SHARED / "tok" / name / "tokenizer.json"))
    tokenizer = libmeg.Tokenizer.open(SHARED / "tok" / name, tokenizer_hf_include_special_tokens=False)
    ids, offsets = tokenizer.encode_batch(texts)
    assert split(ids, offsets) == peer(texts, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_batch_has_the_ids_of_sentencepiece(tmp_path, texts, kind):
    sentencepiece = pytest.importorskip("sentencepiece")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts[:100]), model_prefix=str(tmp_path / "small"), model_type=kind, vocab_size=600,
        hard_vocab_limit=False, byte_fallback=True, minloglevel=2,
    )  # fmt: skip
    peer = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "small.model"))
    tokenizer = libmeg.Tokenizer.open(tmp_path / "small.model", tokenizer_type="GPTSentencePieceTokenizer")
    ids, offsets = tokenizer.encode_batch(texts)
    assert split(ids, offsets) == [peer.encode(text) for text in texts]
    assert tokenizer.decode(ids[: offsets[1]]) == peer.decode(peer.encode(texts[0]))


def test_a_batch_has_the_ids_of_tiktoken(tmp_path, texts):
    tiktoken = pytest.importorskip("tiktoken")
    import base64

    tokenizer = libmeg.Tokenizer.open(**GPT2)
    ranks = {tokenizer.token_bytes(i): i for i in range(tokenizer.eod)}  # the last one
    model = tmp_path / "ranks.json"
    entries = [
        {"rank": i, "token_bytes": base64.b64encode(piece).decode(), "token_str": piece.decode(errors="replace")}
        for piece, i in ranks.items()
    ]
    model.write_text(json.dumps(entries))
    pattern = (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
        r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    peer = tiktoken.Encoding("small", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    special = 10
    ours = libmeg.Tokenizer.open(
        tokenizer_type="TikTokenizer", tokenizer_model=model, tiktoken_pattern="v2", vocab_size=len(ranks) + special,
        tiktoken_num_special_tokens=special,
    )  # fmt: skip
    ids, offsets = ours.encode_batch(texts)
    assert split(ids - special, offsets) == peer.encode_ordinary_batch(texts)


def test_files_have_the_ids_of_their_texts_in_order(gpt2, texts, tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts * 30), encoding="utf-8")
    expected = gpt2.encode_batch(texts * 30)
    for threads in [1, 4]:
        for got, wanted in zip(gpt2.encode_files(path, threads=threads), expected):
            np.testing.assert_array_equal(got, wanted)
    ids, offsets = gpt2.encode_files([path, str(CORPUS)], max_documents=len(texts) * 30 + 2)
    assert len(offsets) == len(texts) * 30 + 3
    np.testing.assert_array_equal(ids[offsets[-3] :], gpt2.encode_batch(texts[:2])[0])


def test_str_bytes_and_single_texts_have_the_same_ids(gpt2, texts):
    ids, offsets = gpt2.encode_batch(texts)
    np.testing.assert_array_equal(gpt2.encode_batch([text.encode() for text in texts])[0], ids)
    np.testing.assert_array_equal(gpt2.encode_batch(iter(texts), dtype=np.uint16)[0], ids.astype(np.uint16))
    assert [gpt2.encode(text).tolist() for text in texts] == split(ids, offsets)


def test_an_empty_batch_has_no_ids(gpt2):
    ids, offsets = gpt2.encode_batch([])
    assert ids.shape == (0,) and offsets.tolist() == [0]
    assert gpt2.encode_batch(["", b""])[1].tolist() == [0, 0, 0]
    assert gpt2.decode([]) == "" and list(gpt2.decode_stream([])) == []


def test_a_stream_gives_complete_characters(gpt2):
    ids = gpt2.encode("né 東京 🙂").tolist()
    pieces = list(gpt2.decode_stream(ids))
    assert len(pieces) > 3 and "".join(pieces) == "né 東京 🙂" and "\ufffd" not in "".join(pieces)
    assert list(gpt2.decode_stream(gpt2.encode("é").tolist()[:1])) == ["\ufffd"]


def test_facts_of_a_vocabulary(gpt2, byte_level):
    vocabulary = byte_level[1].get_vocab()
    assert gpt2.vocab_size == len(vocabulary)
    assert gpt2.eod == vocabulary["<|endoftext|>"] and gpt2.special_tokens == {"<|endoftext|>": gpt2.eod}
    assert gpt2.bos is None and gpt2.pad is None and gpt2.warnings == []
    assert b"".join(gpt2.token_bytes(int(i)) for i in gpt2.encode("né")) == "né".encode()
    assert len(gpt2.identity) == 32
    assert libmeg.Tokenizer.open(tokenizer_type="NullTokenizer", vocab_size=5).identity is None


# ---- Wrong arguments ----


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda t: t.encode(5), TypeError, "text: expected str or bytes, found int"),
        (lambda t: t.encode("a\ud800"), UnicodeEncodeError, "surrogates"),
        (lambda t: t.encode(b"ab\xff"), libmeg.errors.InvalidArgumentError, "text: byte 2: expected UTF-8"),
        (lambda t: t.encode_batch("abc"), TypeError, "expected a list"),
        (lambda t: t.encode_batch(None), TypeError, ""),
        (lambda t: t.encode_batch(["a", bytearray(b"b")]), TypeError, "texts[1]"),
        (lambda t: t.encode_batch(["a"] * 9 + ["\udfff"]), UnicodeEncodeError, "surrogates"),
        (lambda t: t.encode_batch([b"a", b"\xff", b"\xfe"]), libmeg.errors.InvalidArgumentError, "texts[1]: byte 0"),
        (lambda t: t.encode_batch(["a"], threads=0), libmeg.errors.InvalidArgumentError, "threads"),
        (lambda t: t.encode_batch(["a"], threads="2"), TypeError, ""),
        (lambda t: t.encode_batch(["a"], dtype="int64"), libmeg.errors.InvalidArgumentError, "expected int32 or uint16"),
        (lambda t: t.encode_batch(["a"], dtype="nothing"), TypeError, ""),
        (lambda t: t.encode_files("no.jsonl"), FileNotFoundError, "no.jsonl"),
        (lambda t: t.encode_files(str(CORPUS), json_keys=["no"]), libmeg.errors.NotFoundError, "line 1, byte 1"),
        (lambda t: t.encode_files(str(CORPUS), on_error="hide"), libmeg.errors.InvalidArgumentError, "on_error"),
        (lambda t: t.encode_files(str(CORPUS), input_format="xml"), libmeg.errors.InvalidArgumentError, "input_format"),
        (lambda t: t.decode([99999]), libmeg.errors.OutOfRangeError, "token 0: expected an id of the vocabulary"),
        (lambda t: t.decode([5, -1]), libmeg.errors.OutOfRangeError, "token 1"),
        (lambda t: t.decode([2**31 + 5]), libmeg.errors.OutOfRangeError, "token 0"),
        (lambda t: t.decode([2**99]), libmeg.errors.OutOfRangeError, "token 0"),
        (lambda t: t.decode(np.array([2**32 + 5])), libmeg.errors.OutOfRangeError, "token 0"),
        (lambda t: t.decode([1.0]), TypeError, "token 0: expected an int, found float"),
        (lambda t: t.decode([True]), TypeError, "token 0: expected an int, found bool"),
        (lambda t: t.decode(np.array([1.0])), TypeError, "expected an array of integers"),
        (lambda t: t.decode(np.zeros((2, 2), np.int32)), TypeError, "one dimension"),
        (lambda t: t.decode(5), TypeError, ""),
        (lambda t: list(t.decode_stream([1, 10**6])), libmeg.errors.OutOfRangeError, "token 1"),
        (lambda t: t.decode_stream(5), TypeError, ""),
        (lambda t: t.token_bytes(10**6), libmeg.errors.OutOfRangeError, ""),
        (lambda t: t.token_bytes(-1), libmeg.errors.OutOfRangeError, ""),
        (lambda t: libmeg.Tokenizer.open(vocab="v"), TypeError, "unknown argument vocab, expected one of tokenizer_type"),
        (lambda t: libmeg.Tokenizer.open(), libmeg.errors.InvalidArgumentError, "tokenizer_type"),
        (lambda t: libmeg.Tokenizer.open("no"), FileNotFoundError, "no: "),
        (lambda t: libmeg.Tokenizer.open(tokenizer_type="My"), libmeg.errors.InvalidArgumentError, "My"),
        (lambda t: libmeg.Tokenizer.open(tokenizer_type="NullTokenizer", vocab_size="5"),
         libmeg.errors.InvalidArgumentError, "vocab_size: expected an integer"),
        (lambda t: libmeg.Tokenizer.open(tokenizer_type="NullTokenizer", vocab_size=object()), TypeError, "vocab_size"),
        (lambda t: libmeg.Tokenizer.open(**GPT2, megatron_version="v99"), libmeg.errors.InvalidArgumentError, "v99"),
        (lambda t: libmeg.Tokenizer(), TypeError, ""),
    ],
)  # fmt: skip
def test_wrong_arguments_are_exceptions(gpt2, call, error, message):
    with pytest.raises(error) as raised:
        call(gpt2)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value) or not isinstance(raised.value, libmeg.Error)


def test_ids_that_do_not_fit_are_refused():
    null = libmeg.Tokenizer.open(tokenizer_type="NullTokenizer", vocab_size=70000)
    assert null.encode("66000 5").tolist() == [66000, 5]
    with pytest.raises(libmeg.errors.InvalidArgumentError, match="uint16"):
        null.encode_batch(["5"], dtype=np.uint16)
    with pytest.raises(libmeg.errors.InvalidArgumentError, match=r"texts\[1\]"):
        null.encode_batch(["5", "x"])


def test_an_array_of_any_integers_is_decoded(gpt2):
    ids = gpt2.encode("some text to decode")
    for dtype in [np.int32, np.uint16, np.int64, np.uint32, np.uint64, np.int16]:
        assert gpt2.decode(ids.astype(dtype)) == "some text to decode"
    assert gpt2.decode(np.repeat(ids, 2)[::2]) == "some text to decode"
    assert gpt2.decode(ids[::-1][::-1]) == "some text to decode"
    assert gpt2.decode(tuple(ids)) == "some text to decode"
    assert gpt2.decode(int(i) for i in ids) == "some text to decode"


def test_invalid_lines_may_be_skipped_with_a_warning(gpt2, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": "a"}\n{"text": \n{"text": "b"}\n')
    with pytest.raises(libmeg.errors.CorruptionError, match="line 2"):
        gpt2.encode_files(path)
    with pytest.warns(UserWarning, match="skipped 1 invalid lines.*line 2"):
        ids, _ = gpt2.encode_files(path, on_error="skip")
    assert gpt2.decode(ids) == "ab"


# ---- Threads, processes, interruption, memory ----


def test_many_threads_share_a_tokenizer(gpt2, texts):
    expected = gpt2.encode_batch(texts)[0]

    def work(i):
        return gpt2.encode_batch(texts, threads=2)[0] if i % 2 else np.concatenate([gpt2.encode(t) for t in texts])

    with ThreadPoolExecutor(8) as pool:
        for ids in pool.map(work, range(24)):
            np.testing.assert_array_equal(ids, expected)


def test_the_list_may_change_while_it_is_encoded(gpt2, texts):
    batch = [text + str(i) for i in range(20) for text in texts]
    expected = gpt2.encode_batch(list(batch))[0]
    clearing = threading.Thread(target=batch.clear)
    clearing.start()
    ids, _ = gpt2.encode_batch(batch)
    clearing.join()
    assert len(ids) in (0, len(expected))


def encode_in_process(tokenizer, text, queue):
    queue.put(tokenizer.encode_batch([text] * 3, threads=2)[0].tolist())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_take_a_tokenizer_along(gpt2, texts, method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=encode_in_process, args=(gpt2, texts[0], queue))
    process.start()
    assert queue.get(timeout=60) == gpt2.encode(texts[0]).tolist() * 3
    process.join()
    assert process.exitcode == 0


def test_a_fork_while_threads_encode_can_encode(gpt2, texts):
    stop = threading.Event()

    def encode():
        while not stop.is_set():
            gpt2.encode_batch(texts, threads=2)

    thread = threading.Thread(target=encode)
    thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                os._exit(0 if len(gpt2.encode_batch(texts[:50], threads=2)[1]) == 51 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


def test_a_pickled_tokenizer_is_opened_again(gpt2):
    again = pickle.loads(pickle.dumps(gpt2))
    assert again.identity == gpt2.identity and again.tokenizer_type == gpt2.tokenizer_type


def test_long_batches_hear_ctrl_c(gpt2, texts, tmp_path):
    text = texts[0] * 50
    path = tmp_path / "long.jsonl"
    path.write_text((json.dumps({"text": text}) + "\n") * 500)
    for call in [lambda: gpt2.encode_batch([text] * 100_000), lambda: gpt2.encode_files([path] * 100)]:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            call()
        timer.join()
    assert gpt2.decode(gpt2.encode("still usable")) == "still usable"


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_repeated_use_does_not_grow(gpt2, texts):
    def use(times):
        for i in range(times):
            text = texts[i % len(texts)]
            ids, _ = gpt2.encode_batch([text, text.encode()])
            gpt2.decode(gpt2.encode(text))
            list(gpt2.decode_stream(ids[:10].tolist()))
            with pytest.raises(libmeg.errors.OutOfRangeError):
                gpt2.decode([10**6])
            if i % 10 == 0:
                libmeg.Tokenizer.open(**GPT2)

    use(1000)
    before = resident_bytes()
    use(10_000)
    assert resident_bytes() - before < 16 << 20
