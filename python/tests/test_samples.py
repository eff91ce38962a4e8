"""GPTDataset, beside megatron-core's."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest

import libmeg

LENGTH, VOCAB_SIZE = 16, 1000
TOKENIZER = {"tokenizer_type": "NullTokenizer", "vocab_size": VOCAB_SIZE}
FIELDS = ("tokens", "labels", "loss_mask", "position_ids")


def write(prefix, documents, seed):
    random = numpy.random.default_rng(seed)
    builder = libmeg.IndexedDatasetBuilder(prefix, dtype="uint16")
    for _ in range(documents):
        tokens = random.integers(0, VOCAB_SIZE, random.integers(1, 40))
        tokens[-1] = VOCAB_SIZE  # NullTokenizer's end of a document
        builder.add_item(tokens)
        builder.end_document()
    builder.finalize()
    return prefix


@pytest.fixture
def prefixes(tmp_path):
    return [write(str(tmp_path / name), 200, seed) for seed, name in enumerate(("web", "books"))]


def megatron_splits(samples, blend, cache, **config):
    torch = pytest.importorskip("torch")
    pytest.importorskip("megatron.core.datasets.gpt_dataset")
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.tokenizers import MegatronTokenizer

    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", init_method=f"file://{cache}.store", rank=0, world_size=1)
    settings = {"reset_position_ids": False, "reset_attention_mask": False, "eod_mask_loss": False, **config}
    return BlendedMegatronDatasetBuilder(
        GPTDataset,
        samples,
        lambda: True,
        GPTDatasetConfig(
            random_seed=1234,
            sequence_length=LENGTH,
            blend=blend,
            split="80,15,5",
            path_to_cache=cache,
            tokenizer=MegatronTokenizer.from_pretrained(metadata_path={"library": "null"}, vocab_size=VOCAB_SIZE),
            **settings,
        ),
    ).build()


def our_splits(samples, data_path, cache, **arguments):
    pytest.importorskip("megatron.core")
    import importlib.metadata

    return libmeg.gpt_datasets(
        data_path=data_path,
        split="80,15,5",
        seq_length=LENGTH,
        samples=",".join(map(str, samples)),
        data_cache_path=cache,
        megatron_version="core_v" + importlib.metadata.version("megatron-core"),
        **TOKENIZER,
        **arguments,
    )


def check_same(ours, theirs, fields=FIELDS):
    assert len(ours) == len(theirs)
    for i in range(len(theirs)):
        a, b = ours[i], theirs[i]
        for name in fields:
            assert numpy.array_equal(a[name], b[name].numpy()), (i, name)
            assert a[name].dtype == b[name].numpy().dtype


@pytest.mark.parametrize("ours_first", [True, False])
def test_samples_and_caches_are_those_of_megatron(tmp_path, prefixes, ours_first):
    cache = str(tmp_path / "cache")
    build = {
        True: lambda: our_splits([100, 20, 5], [prefixes[0]], cache),
        False: lambda: megatron_splits([100, 20, 5], ([prefixes[0]], None), cache),
    }
    first = build[ours_first]()
    files = {name: os.stat(os.path.join(cache, name)).st_ino for name in os.listdir(cache)}
    second = build[not ours_first]()
    assert {name: os.stat(os.path.join(cache, name)).st_ino for name in os.listdir(cache)} == files
    ours, theirs = (first, second) if ours_first else (second, first)
    for a, b in zip(ours, theirs):
        check_same(a, b)


def test_blends_are_those_of_megatron(tmp_path, prefixes):
    ours = our_splits([300, 20, 5], [0.3, prefixes[0], 0.7, prefixes[1]], str(tmp_path / "a"))
    theirs = megatron_splits([300, 20, 5], (prefixes, [0.3, 0.7]), str(tmp_path / "b"))
    for a, b in zip(ours, theirs):
        assert isinstance(a, libmeg.BlendedDataset)
        check_same(a, b)
        assert [type(a[i]["dataset_id"]) for i in (0, -1)] == [type(b[i]["dataset_id"]) for i in (0, -1)]
        assert [a[i]["dataset_id"] for i in range(len(a))] == [b[i]["dataset_id"] for i in range(len(b))]
        for name in ("dataset_index", "dataset_sample_index"):
            assert numpy.array_equal(getattr(a, name), getattr(b, name))
            assert getattr(a, name).dtype == getattr(b, name).dtype
        for part, wanted in zip(a.datasets, b.datasets, strict=True):
            check_same(part, wanted)


def test_samples_of_a_blend_are_those_of_its_datasets(tmp_path, prefixes):
    blend, valid, _ = libmeg.gpt_datasets(
        data_path=[1, prefixes[0], 2, prefixes[1]], split="80,20,0", seq_length=LENGTH, samples="100,10,None",
        data_cache_path=tmp_path / "cache", **TOKENIZER
    )
    assert repr(blend) == f"<BlendedDataset train: {len(blend)} samples of {LENGTH} tokens>"
    assert [dataset.prefixes for dataset in blend.datasets] == [[prefix] for prefix in prefixes]
    for i, (dataset, sample) in enumerate(zip(blend.dataset_index, blend.dataset_sample_index, strict=True)):
        assert blend[i]["dataset_id"] == dataset
        assert numpy.array_equal(blend[i]["tokens"], blend.datasets[dataset][sample]["tokens"])
    batch = blend[[5, -1, 0]]
    assert batch["dataset_id"].tolist() == blend.dataset_index[[5, -1, 0]].tolist()
    assert batch["tokens"].tolist() == [blend[i]["tokens"].tolist() for i in (5, -1, 0)]
    for one in (blend, blend.datasets[1], valid.datasets[0]):
        again = pickle.loads(pickle.dumps(one))
        assert (repr(again), again.prefixes) == (repr(one), one.prefixes)
        assert numpy.array_equal(again[3]["tokens"], one[3]["tokens"])
    with pytest.raises(ValueError):
        blend.dataset_index[0] = 1
    with pytest.raises(IndexError):
        blend[len(blend)]


def test_masks_and_positions_are_those_of_megatron(tmp_path, prefixes):
    resets = dict(reset_position_ids=True, reset_attention_mask=True, eod_mask_loss=True)
    ours = our_splits([50, 10, 5], [prefixes[0]], str(tmp_path / "a"), **resets)
    theirs = megatron_splits([50, 10, 5], ([prefixes[0]], None), str(tmp_path / "b"), **resets)
    for a, b in zip(ours, theirs):
        check_same(a, b, (*FIELDS, "attention_mask"))


@pytest.fixture
def train(tmp_path, prefixes):
    return libmeg.gpt_datasets(
        data_path=prefixes[0], split="1,0,0", seq_length=LENGTH, samples="100,None,None",
        data_cache_path=tmp_path / "cache", **TOKENIZER
    )[0]


@pytest.mark.parametrize("num_workers", [0, 3])
def test_batches_are_the_samples_of_each_rank(train, num_workers):
    seen = []
    for rank in range(2):
        batches = train.batches(
            3, data_parallel_rank=rank, data_parallel_size=2, consumed_samples=6, num_workers=num_workers
        )
        for batch in batches:
            assert batch["tokens"].shape == (3, LENGTH)
            for row, number in enumerate(batch["sample_numbers"]):
                for name in FIELDS:
                    assert numpy.array_equal(batch[name][row], train[number][name])
            seen += batch["sample_numbers"].tolist()
    assert sorted(seen) == list(range(6, 6 + len(seen)))
    assert len(seen) == (len(train) - 6) // 6 * 6


@pytest.mark.parametrize("num_workers", [0, 3])
def test_samples_read_ahead_are_the_samples(train, num_workers):
    samples = list(train.samples(consumed_samples=5, num_workers=num_workers))
    assert len(samples) == len(train) - 5
    for number, sample in enumerate(samples, 5):
        assert sample.keys() == train[number].keys()
        for name, values in train[number].items():
            numpy.testing.assert_array_equal(sample[name], values)


def test_several_at_once_are_the_samples(train):
    numbers = numpy.array([3, -1, 3])
    for batch in (train[numbers], train[numbers.tolist()]):
        for name in FIELDS:
            assert batch[name].tolist() == [train[int(number)][name].tolist() for number in numbers]
    assert train[[]]["tokens"].shape == (0, LENGTH)
    with pytest.raises(IndexError):
        train[[0, len(train)]]


def test_arrays_are_the_callers(train):
    batches = list(train.batches(4))
    assert all(batch["tokens"].flags.writeable for batch in batches)
    assert numpy.array_equal(batches[0]["tokens"][0], train[0]["tokens"])
    batches[0]["tokens"][:] = 0
    assert train[0]["tokens"].any()


def test_source_names_the_tokens(train):
    dataset = libmeg.IndexedDataset(train.prefixes[0])
    for i in range(len(train)):
        parts = [dataset.get(sequence, offset, length) for _, sequence, offset, length in train.source(i)]
        assert numpy.concatenate(parts).tolist() == train.text(i).tolist()


def test_pickled_it_is_opened_again(train):
    again = pickle.loads(pickle.dumps(train))
    assert len(again) == len(train)
    assert numpy.array_equal(again[7]["tokens"], train[7]["tokens"])


def test_threads_and_forked_processes_read_it(train):
    expected = [train[i]["tokens"].tolist() for i in range(len(train))]
    seen = []

    def read():
        seen.append([train[i]["tokens"].tolist() for i in range(len(train))] == expected)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    child = os.fork()
    if child == 0:
        os._exit(0 if [batch["tokens"].tolist() for batch in train.batches(1)] == [[row] for row in expected] else 1)
    assert os.waitpid(child, 0)[1] == 0
    for thread in threads:
        thread.join()
    assert seen == [True] * 4


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"seq_lenght": 16}, ValueError, "--seq-lenght"),
        ({"data_path": "missing"}, FileNotFoundError, "missing"),
        ({"seq_length": -1}, ValueError, "seq-length"),
        ({"split": "a,b"}, ValueError, "split"),
        ({"help": True}, ValueError, "only prints"),
        ({"samples": "1000000000000,None,None"}, Exception, "."),
    ],
)
def test_wrong_arguments_are_named(prefixes, arguments, error, message):
    right = dict(data_path=prefixes[0], split="1,0,0", seq_length=LENGTH, samples="10,None,None", **TOKENIZER)
    with pytest.raises(error, match=message) as raised:
        libmeg.gpt_datasets(**{**right, **arguments})
    assert isinstance(raised.value, libmeg.Error)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("index, error", [(100000, IndexError), (-100000, IndexError), ("a", TypeError)])
def test_there_is_no_such_sample(train, index, error):
    with pytest.raises(error):
        train[index]


def test_wrong_batches_are_refused(train):
    for arguments in ({"micro_batch_size": 0}, {"micro_batch_size": 1, "data_parallel_rank": 1},
                      {"micro_batch_size": 1, "dataloader_type": "other"},
                      {"micro_batch_size": 1, "consumed_samples": 10**9}):
        with pytest.raises(ValueError):
            train.batches(**arguments)


def test_progress_may_end_the_work(tmp_path, prefixes):
    arguments = dict(
        data_path=[1, prefixes[0], 1, prefixes[1]], split="1,0,0", seq_length=LENGTH, samples="100,None,None", **TOKENIZER
    )
    seen = []
    libmeg.gpt_datasets(progress=lambda *counts: seen.append(counts), **arguments)
    assert seen[-1] == ("train", 2, 2)
    with pytest.raises(libmeg.errors.CancelledError):
        libmeg.gpt_datasets(progress=lambda *counts: False, **arguments)


LONG = """
import sys, libmeg
print("begins", flush=True)
libmeg.gpt_datasets(data_path=sys.argv[1], split="1,0,0", seq_length=2, samples="200000000,None,None",
                    data_cache_path=sys.argv[2], tokenizer_type="NullTokenizer", vocab_size=1000)
"""


def test_ctrl_c_is_heard_while_caches_are_built(tmp_path, prefixes):
    cache = tmp_path / "cache"
    process = subprocess.Popen([sys.executable, "-c", LONG, prefixes[0], cache], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begins\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, log = process.communicate(timeout=120)
    assert log.strip().endswith("KeyboardInterrupt")
    assert list(cache.glob("*.npy")) == []


def test_a_data_loader_of_torch_with_forked_and_spawned_workers(train):
    torch = pytest.importorskip("torch")
    for context in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(train, batch_size=5, num_workers=2, multiprocessing_context=context)
        tokens = torch.cat([batch["tokens"] for batch in loader])
        assert tokens.tolist() == [train[i]["tokens"].tolist() for i in range(len(train))]
