dataset_inspect testdata/golden/datasets/mm_int32 --trace --step 2 --seq-length 8 --split 1,0,0 --train-iters 5 --micro-batch-size 2 --global-batch-size 4 \
  --prepare-cache-world-size 2 --eval-iters 0 --tokenizer-type NullTokenizer --vocab-size 1000 \
  --data-cache-path cache 2>/dev/null
dataset_inspect testdata/golden/datasets/mm_int32 --trace --step 2 --rank 1 --json --seq-length 8 --split 1,0,0 --train-iters 5 --micro-batch-size 2 --global-batch-size 4 \
  --prepare-cache-world-size 2 --eval-iters 0 --tokenizer-type NullTokenizer --vocab-size 1000 \
  --data-cache-path cache 2>/dev/null
