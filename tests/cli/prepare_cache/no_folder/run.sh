touch file
prepare_cache --data-path testdata/golden/datasets/mm_int32 --seq-length 8 --samples 2,0,0 \
  --split 1,0,0 --data-cache-path file/cache --tokenizer-type NullTokenizer --vocab-size 1000 >/dev/null
