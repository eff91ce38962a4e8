# What would have no effect is an error: flags of the shape against args, and what no Hugging Face folder has.
refused() { checkpoint_util --load-dir testdata/checkpoint --save-dir saved "$@" 2>&1 | tail -1; }
refused --make-vocab-size-divisible-by 128
refused --num-layers 7
refused --target-format huggingface --target-tensor-parallel-size 2
refused --target-format huggingface --saver core
refused --target-format torch_dist --saver huggingface
refused --target-format torch --saver huggingface
refused --target-format torch_dist --saver megatron
refused --target-format torch_dist --loader huggingface --bf16
refused --target-format torch_dist --max-shard-size 1GB
refused --max-shard-size 1GB
refused --saver-transformer-impl transformer_engine
refused --saver megatron --saver-transformer-impl transformer_engine
ls
checkpoint_util --load-dir testdata/checkpoint --save-dir hf --target-format huggingface --dry-run \
    --target-tensor-parallel-size 1 --target-pipeline-parallel-size 1 --num-layers 4 >/dev/null && echo done
