prepare_cache --data-path testdata/golden/datasets/mm_int32 --seq-length 8 --micro-batch-size 2
