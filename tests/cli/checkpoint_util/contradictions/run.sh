# What would have no effect is an error: flags of the shape against args, and what no Hugging Face folder has.
refused() { checkpoint_util --load-dir testdata/checkpoint --save-dir saved "$@" 2>&1 | tail -1; }
refused --make-vocab-size-divisible-by 128
refused --num-layers 7
refused --target-format huggingface --target-tensor-parallel-size 2
refused --target-format huggingface --saver core
refused --saver-transformer-impl transformer_engine
refused --saver megatron --saver-transformer-impl transformer_engine
ls
checkpoint_util --load-dir testdata/checkpoint --save-dir hf --target-format huggingface --dry-run \
    --target-tensor-parallel-size 1 --target-pipeline-parallel-size 1 --num-layers 4 >/dev/null && echo done
