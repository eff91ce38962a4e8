prepare_cache --data-path testdata/golden/datasets/mm_int32 --seq-length 1024 --samples 2,0,0 \
  --split 1,0,0 --data-cache-path cache --tokenizer-type NullTokenizer --vocab-size 1000 2>&1 >/dev/null
code=$?
ls cache 2>/dev/null
exit $code
