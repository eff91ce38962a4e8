checkpoint_inspect testdata/checkpoint --true-vocab-size 75
