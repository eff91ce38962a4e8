prepare_cache --data-path testdata/golden/datasets/mm_int32 --seq-length 8 --samples 2,2,2 \
  --seed 4294967296
