# The plan alone: nothing is written, and no --save-dir is needed.
checkpoint_util --model-type GPT --load-dir testdata/checkpoint --target-tensor-parallel-size 1 \
    --target-pipeline-parallel-size 2 --target-virtual-pipeline-parallel-size 2 \
    --true-vocab-size 75 --dry-run
ls
