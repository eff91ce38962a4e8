prepare_cache --mock-data --seq-length 8 --train-iters 5 --micro-batch-size 2
