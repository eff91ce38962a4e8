prepare_cache --data-path testdata/golden/datasets/mm_int32 --seq-length 8 --samples 2,2,2 \
  --megatron-version core_v0.9.0
