checkpoint_util --load-dir testdata/checkpoint
