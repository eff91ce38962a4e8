"""A last step for datatrove: every task tokenizes its documents into a shard, and merging puts the shards together.

    python datatrove_preprocess.py FOLDER PREFIX VOCAB_FILE MERGE_FILE
"""

import sys

import libmeg
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.readers import JsonlReader


class LibmegWriter(PipelineStep):
    name = "libmeg"

    def __init__(self, prefix, **flags):
        super().__init__()
        self.prefix, self.flags = prefix, flags

    def run(self, data, rank=0, world_size=1):
        libmeg.preprocess(
            documents=(document.text for document in data), output_prefix=f"{self.prefix}_{rank:05d}", **self.flags
        )


if __name__ == "__main__":
    folder, prefix, vocab_file, merge_file = sys.argv[1:]
    flags = dict(tokenizer_type="GPT2BPETokenizer", vocab_file=vocab_file, merge_file=merge_file, append_eod=True)
    tasks = 4  # task k reads the files k, k + tasks ... of the folder
    pipeline = [JsonlReader(folder), LibmegWriter(prefix, workers=1, **flags)]
    LocalPipelineExecutor(pipeline, tasks=tasks, workers=2, logging_dir=f"{prefix}_logs").run()
    print(libmeg.merge([f"{prefix}_{rank:05d}_text_document" for rank in range(tasks)], f"{prefix}_text_document"))
