WORLD_SIZE=6 prepare_cache --data-path testdata/golden/datasets/mm_int32 --seq-length 8 \
  --train-iters 2 --micro-batch-size 2 --tensor-model-parallel-size 4
