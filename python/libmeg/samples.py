"""The samples of a training run from keywords."""

from libmeg._core import GPTDataset
from libmeg.programs import flags_of


def gpt_datasets(*, progress=None, **arguments):
    """The train, valid and test samples of a run: three GPTDataset, None for a split without samples, a BlendedDataset for
    one whose samples are drawn from several datasets.

    arguments: Megatron's, with the names and values of its command line: `data_path` (a prefix, or weights and prefixes
    in turn), `split`, `train_data_path` ..., `seq_length`, `seed`, `train_samples`, or `train_iters` with
    `global_batch_size` ..., `data_cache_path`, and the tokenizer's (`tokenizer_type`, `vocab_file` ...), by which index
    caches are named; of libmeg's own, `samples="1000,100,None"` says how many to request, and `megatron_version` which
    revision to follow. What is not known is refused by name.

    progress: called after the index cache of each dataset with the split, how many are done and how many there are;
    False ends the work with CancelledError.
    """
    return GPTDataset.from_flags(flags_of(arguments), progress=progress)


def open_split(flags, split, part=None):
    """What a pickled GPTDataset is opened by; part: which of a blend's datasets it is."""
    opened = dict(zip(("train", "valid", "test"), GPTDataset.from_flags(flags)))[split]
    return opened if part is None else opened.datasets[part]
