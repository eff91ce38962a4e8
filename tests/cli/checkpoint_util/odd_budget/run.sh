checkpoint_util --load-dir testdata/checkpoint --save-dir saved --memory-budget lots
