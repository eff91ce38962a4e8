prepare_cache --data-path 0.5 testdata/golden/datasets/mm_int32 half testdata/golden/datasets/uint16 \
  --seq-length 8 --samples 2,2,2
