# A blend of v2.x is as long as its datasets together, more than can be drawn by these weights; a run
# reads its beginning.
mkdir data && cp testdata/golden/datasets/mm_int32.* testdata/golden/datasets/uint16.* data
prepare_cache --data-path 0.9 data/mm_int32 0.1 data/uint16 --split 1,0,0 --seq-length 8 \
  --samples 4,0,0 --megatron-version v2.6 2>/dev/null | sed 's/, [0-9.]* s$//'
