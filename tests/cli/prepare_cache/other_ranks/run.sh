flags="--data-path testdata/golden/datasets/mm_int32 --seq-length 8 --train-iters 5 --split 1,0,0 --micro-batch-size 2 --vocab-size 100 \
  --tokenizer-type NullTokenizer --data-cache-path cache --prepare-cache-world-size 4"
# Both leave fewer copies of the model, of which the default global batch is a multiple.
prepare_cache $flags --tensor-parallel-num-weight-shards 2 && exit 9
prepare_cache $flags --encoder-pipeline-model-parallel-size 1 --encoder-tensor-model-parallel-size 1 && exit 9
# Its default says nothing.
prepare_cache $flags --encoder-pipeline-model-parallel-size 0 >/dev/null 2>&1
