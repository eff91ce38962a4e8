dataset_inspect testdata/golden/datasets/mm_int32 --trace --document 2 --seq-length 8 --split 1,0,0 --train-iters 5 --micro-batch-size 2 --global-batch-size 4 \
  --prepare-cache-world-size 2 --eval-iters 0 --tokenizer-type NullTokenizer --vocab-size 1000 \
  --data-cache-path cache 2>/dev/null
dataset_inspect testdata/golden/datasets/mm_int32 --trace --document 2 --json --seq-length 8 --split 1,0,0 --train-iters 5 --micro-batch-size 2 --global-batch-size 4 \
  --prepare-cache-world-size 2 --eval-iters 0 --tokenizer-type NullTokenizer --vocab-size 1000 \
  --data-cache-path cache 2>/dev/null
dataset_inspect testdata/golden/datasets/uint16 --trace --document 1 --seq-length 8 --split 1,0,0 --train-iters 5 --micro-batch-size 2 --global-batch-size 4 \
  --prepare-cache-world-size 2 --eval-iters 0 --tokenizer-type NullTokenizer --vocab-size 1000 \
  --data-cache-path cache 2>/dev/null \
  --data-path 0.1 testdata/golden/datasets/mm_int32 0.9 testdata/golden/datasets/uint16
