# Megatron's plug-in names are taken; core and mcore ask for mcore's names.
checkpoint_util --load-dir testdata/checkpoint --loader megatron --saver core --no-optim \
    --target-tensor-parallel-size 2 --target-pipeline-parallel-size 1 \
    --target-params-dtype fp32 --dry-run
