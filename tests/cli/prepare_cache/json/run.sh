prepare_cache --data-path testdata/golden/datasets/mm_int32 --split 1,0,0 --seq-length 8 \
  --train-iters 5 --global-batch-size 4 --eval-iters 0 --data-cache-path cache --json \
  --tokenizer-type NullTokenizer --vocab-size 1000 | sed 's/"seconds": .*/"seconds": S/'
