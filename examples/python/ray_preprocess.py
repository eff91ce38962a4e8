"""A dataset of Ray to `.bin/.idx`: every part becomes a shard, and merging puts them together in the order of the rows.

    python ray_preprocess.py FILE PREFIX VOCAB_FILE MERGE_FILE
"""

import sys

import libmeg
import ray


@ray.remote
def write_shard(part, shard, flags):
    libmeg.preprocess(documents=(row["text"] for row in part.iter_rows()), output_prefix=shard, workers=1, **flags)
    return f"{shard}_text_document"


if __name__ == "__main__":
    file, prefix, vocab_file, merge_file = sys.argv[1:]
    flags = dict(tokenizer_type="GPT2BPETokenizer", vocab_file=vocab_file, merge_file=merge_file, append_eod=True)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    parts = ray.data.read_json(file, lines=True).split(4)
    tasks = [write_shard.remote(part, f"{prefix}_{number:05d}", flags) for number, part in enumerate(parts)]
    print(libmeg.merge(ray.get(tasks), f"{prefix}_text_document"))
