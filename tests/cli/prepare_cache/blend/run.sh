prepare_cache --data-path 0.3 testdata/golden/datasets/mm_int32 0.7 testdata/golden/datasets/uint16 \
  --split 1,0,0 --seq-length 8 --samples 20,0,0 --data-cache-path cache \
  --tokenizer-type NullTokenizer --vocab-size 1000 | sed 's/, [0-9.]* s$//'
