checkpoint_util --model-type GPT --load-dir testdata/checkpoint --save-dir saved \
    --target-tensor-parallel-size 4 --target-pipeline-parallel-size 1 --true-vocab-size 75 |
    sed 's/in [0-9.]* s ([0-9.]* GB/in S s (R GB/; s/device in [0-9.]* s/device in S s/'
find saved -type f | sort
cat saved/latest_checkpointed_iteration.txt
