"""IndexedDataset and its builder, beside megatron-core's."""

import gc
import os
import pickle
import subprocess
import sys
import threading

import numpy
import pytest

import libmeg

DTYPES = ["uint8", "int8", "int16", "uint16", "int32", "int64", "float32", "float64"]


@pytest.fixture
def megatron():
    return pytest.importorskip("megatron.core.datasets.indexed_dataset")


def documents_of(dtype, seed=1):
    random = numpy.random.default_rng(seed)
    lengths = [[3, 0, 5], [], [1], [2, 7]]
    return [[random.integers(0, 100, size).astype(dtype) for size in document] for document in lengths]


def write(prefix, dtype="uint16", multimodal=False, builder=libmeg.IndexedDatasetBuilder):
    made = builder(str(prefix) + ".bin", dtype=numpy.dtype(dtype).type, multimodal=multimodal)
    for document in documents_of(dtype):
        for mode, item in enumerate(document):
            made.add_item(item, mode if multimodal else 0)
        made.end_document()
    made.finalize(str(prefix) + ".idx")
    return str(prefix)


@pytest.fixture
def prefix(tmp_path):
    return write(tmp_path / "corpus")


@pytest.mark.parametrize("multimodal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_builder_writes_the_bytes_of_megatron(tmp_path, megatron, dtype, multimodal):
    torch = pytest.importorskip("torch")

    class Builder(megatron.IndexedDatasetBuilder):
        def add_item(self, item, mode):
            super().add_item(torch.from_numpy(item.astype(numpy.float64)), mode)

    ours = write(tmp_path / "ours", dtype, multimodal)
    theirs = write(tmp_path / "theirs", dtype, multimodal, Builder)
    for ending in (".bin", ".idx"):
        with open(ours + ending, "rb") as a, open(theirs + ending, "rb") as b:
            assert a.read() == b.read()


@pytest.mark.parametrize("multimodal", [False, True])
def test_reads_what_megatron_reads(tmp_path, megatron, multimodal):
    prefix = write(tmp_path / "corpus", multimodal=multimodal)
    ours, theirs = libmeg.IndexedDataset(prefix, multimodal), megatron.IndexedDataset(prefix, multimodal)
    assert len(ours) == len(theirs)
    assert ours.dtype == theirs.index.dtype
    for name in ("sequence_lengths", "document_indices"):
        assert getattr(ours, name).tolist() == getattr(theirs, name).tolist()
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype

    def same(a, b):
        if multimodal:
            assert numpy.array_equal(a[1], b[1])
            a, b = a[0], b[0]
        assert a.dtype == b.dtype
        assert a.tolist() == b.tolist()

    for i in range(len(theirs)):
        same(ours[i], theirs[i])
        for offset in range(int(theirs.sequence_lengths[i])):
            same(ours.get(i, offset), theirs.get(i, offset))
            same(ours.get(i, offset, 1), theirs.get(i, offset, 1))
    for begin, end in [(0, 3), (1, 6), (2, None), (None, 2)]:
        ours_part, theirs_part = ours[begin:end], theirs[begin:end]
        if multimodal:
            assert ours_part[1].tolist() == theirs_part[1].tolist()
            ours_part, theirs_part = ours_part[0], theirs_part[0]
        assert [a.tolist() for a in ours_part] == [a.tolist() for a in theirs_part]


def test_items_are_views_that_keep_the_mapping(prefix):
    dataset = libmeg.IndexedDataset(prefix)
    item, lengths = dataset[0], dataset.sequence_lengths
    expected = item.tolist()
    assert not item.flags.owndata and not item.flags.writeable
    assert numpy.shares_memory(item, dataset.get(0, 1, 1))
    dataset.close()
    del dataset
    os.remove(prefix + ".bin")
    gc.collect()
    assert item.tolist() == expected
    assert lengths.tolist() == [3, 0, 5, 1, 2, 7]


def test_negative_numbers_count_from_the_end(prefix):
    dataset = libmeg.IndexedDataset(prefix)
    assert dataset[-1].tolist() == dataset[5].tolist()
    assert dataset[numpy.int64(2)].tolist() == dataset[2].tolist()


@pytest.mark.parametrize(
    "use, error, message",
    [
        (lambda data: data[6], IndexError, "6"),
        (lambda data: data[-7], IndexError, "-7"),
        (lambda data: data[1 << 70], IndexError, "."),
        (lambda data: data["0"], TypeError, "."),
        (lambda data: data[0.0], TypeError, "."),
        (lambda data: data[::2], ValueError, "contiguous"),
        (lambda data: data.get(0, 4), IndexError, "."),
        (lambda data: data.get(0, 0, 4), IndexError, "."),
        (lambda data: data.get(0, -1), IndexError, "."),
        (lambda data: data.get(0, 1, -1), IndexError, "."),
    ],
)
def test_wrong_calls_raise(prefix, use, error, message):
    with pytest.raises(error, match=message):
        use(libmeg.IndexedDataset(prefix))


def test_a_closed_dataset_says_so(prefix):
    with libmeg.IndexedDataset(prefix) as dataset:
        assert not dataset.closed
    assert dataset.closed
    for use in (len, lambda data: data[0], lambda data: data.get(0), lambda data: data.sequence_lengths, pickle.dumps):
        with pytest.raises(ValueError, match="corpus: the dataset is closed"):
            use(dataset)


def test_damage_is_named(prefix):
    with pytest.raises(FileNotFoundError, match="missing.idx: No such file"):
        libmeg.IndexedDataset("missing")
    with open(prefix + ".idx", "r+b") as idx:
        idx.truncate(40)
    with pytest.raises(libmeg.errors.CorruptionError, match="corpus.idx"):
        libmeg.IndexedDataset(prefix)


def test_a_bin_that_is_too_short_is_named(prefix):
    with open(prefix + ".bin", "r+b") as bin:
        bin.truncate(20)
    with pytest.raises(libmeg.errors.CorruptionError, match="corpus"):
        dataset = libmeg.IndexedDataset(prefix)
        [dataset[i] for i in range(len(dataset))]


def test_pickled_it_is_opened_again(prefix):
    dataset = pickle.loads(pickle.dumps(libmeg.IndexedDataset(prefix, multimodal=False)))
    assert dataset[0].tolist() == libmeg.IndexedDataset(prefix)[0].tolist()


def test_threads_and_forked_processes_read_it(prefix):
    dataset = libmeg.IndexedDataset(prefix)
    expected = [item.tolist() for item in dataset[:]]
    seen = []
    threads = [
        threading.Thread(target=lambda: [seen.append([a.tolist() for a in dataset[:]] == expected) for _ in range(200)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    child = os.fork()
    if child == 0:
        os._exit(0 if [item.tolist() for item in dataset[:]] == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    for thread in threads:
        thread.join()
    assert seen == [True] * 800


def test_exists(prefix):
    assert libmeg.IndexedDataset.exists(prefix)
    assert not libmeg.IndexedDataset.exists(prefix + "x")
    os.remove(prefix + ".bin")
    assert not libmeg.IndexedDataset.exists(prefix)


GROWTH = """
import os, resource, sys, libmeg

def opened(times):
    for _ in range(times):
        with libmeg.IndexedDataset(sys.argv[1]) as dataset:
            dataset[0], dataset.sequence_lengths

opened(500)
files, memory = len(os.listdir("/proc/self/fd")), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
opened(10000)
assert len(os.listdir("/proc/self/fd")) == files
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
assert grown < 1024, f"{grown} KiB"
"""


def test_opening_it_many_times_does_not_grow(prefix):
    subprocess.run([sys.executable, "-c", GROWTH, prefix], check=True)


@pytest.mark.parametrize(
    "items, message",
    [
        ([70000], "item 0: 70000 does not fit in uint16"),
        ([1, -1], "item 1: -1 does not fit"),
        ([0.5], "expected integers"),
        ([[1, 2]], "one dimension"),
        (numpy.array([1], dtype=">u2"), "byte order"),
        (["a"], "numbers"),
        (None, "incompatible function arguments"),
        (numpy.array([True]), "bool"),
    ],
)
def test_the_builder_never_changes_a_number(tmp_path, items, message):
    builder = libmeg.IndexedDatasetBuilder(str(tmp_path / "x"), dtype=numpy.uint16)
    with pytest.raises((ValueError, TypeError), match=message):
        builder.add_item(items)
    builder.add_item([1, 2])
    builder.add_item([])
    builder.end_document()
    builder.finalize()
    dataset = libmeg.IndexedDataset(str(tmp_path / "x"))
    assert [item.tolist() for item in dataset[:]] == [[1, 2], []]


def test_paths_are_of_any_kind(tmp_path):
    builder = libmeg.IndexedDatasetBuilder(tmp_path / "x.bin", dtype="uint16")
    builder.add_item([1, 2])
    builder.end_document()
    builder.finalize(tmp_path / "x.idx")
    assert libmeg.IndexedDataset.exists(tmp_path / "x")
    for given in (tmp_path / "x", os.fsencode(tmp_path / "x")):
        dataset = libmeg.IndexedDataset(given)
        assert dataset.path_prefix == str(tmp_path / "x")
        assert pickle.loads(pickle.dumps(dataset))[0].tolist() == [1, 2]
    more = libmeg.IndexedDatasetBuilder(tmp_path / "y", dtype="uint16")
    more.add_index(tmp_path / "x")
    with pytest.raises(ValueError, match="y.idx beside its .bin, found .*z.idx"):
        more.finalize(tmp_path / "z.idx")


def test_the_builder_takes_tensors_documents_and_datasets(tmp_path, prefix):
    torch = pytest.importorskip("torch")
    builder = libmeg.IndexedDatasetBuilder(str(tmp_path / "x.bin"), dtype="uint16")
    builder.add_document(torch.tensor([1, 2, 3]), [2, 1])
    builder.add_index(prefix)
    builder.finalize(str(tmp_path / "x.idx"))
    dataset = libmeg.IndexedDataset(str(tmp_path / "x"))
    assert [item.tolist() for item in dataset[:2]] == [[1, 2], [3]]
    assert dataset.document_indices.tolist() == [0, 2, 5, 5, 6, 8]
    with pytest.raises(ValueError, match="finalized"):
        builder.end_document()


def test_a_builder_that_is_not_finalized_leaves_nothing(tmp_path):
    builder = libmeg.IndexedDatasetBuilder(str(tmp_path / "x"), dtype="uint16")
    builder.add_item([1])
    del builder
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", ["uint32", "float16", "complex64", "nonsense"])
def test_the_builder_refuses_other_types(tmp_path, dtype):
    with pytest.raises((ValueError, TypeError)):
        libmeg.IndexedDatasetBuilder(str(tmp_path / "x"), dtype=dtype)
