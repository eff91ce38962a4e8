"""Megatron's samples in JAX: as a source of Grain, and as micro-batches that C++ threads read ahead.

    python jax_samples.py PREFIX VOCAB_FILE MERGE_FILE
"""

import sys

import grain
import jax
import libmeg


@jax.jit
def tokens_with_loss(batch):
    return batch["loss_mask"].sum(), (batch["labels"] * batch["loss_mask"]).sum()


if __name__ == "__main__":
    prefix, vocab_file, merge_file = sys.argv[1:]
    train, _, _ = libmeg.gpt_datasets(
        data_path=prefix, split="1,0,0", seq_length=64, train_samples=32, global_batch_size=8, micro_batch_size=8,
        tokenizer_type="GPT2BPETokenizer", vocab_file=vocab_file, merge_file=merge_file, eod_mask_loss=True)
    for batch in grain.MapDataset.source(train).batch(8, drop_remainder=True).to_iter_dataset():
        print("grain", *tokens_with_loss(batch))
    for batch in train.batches(micro_batch_size=8):
        print("threads", *tokens_with_loss(batch))
