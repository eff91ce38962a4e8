# The dataset may stand among the run's flags alone.
dataset_inspect --data-path testdata/golden/datasets/mm_int32 --trace --step 1 --rank 0 --seq-length 8 \
  --split 1,0,0 --train-iters 5 --micro-batch-size 1 --eval-iters 0 --tokenizer-type NullTokenizer \
  --vocab-size 1000 --data-cache-path cache 2>/dev/null
