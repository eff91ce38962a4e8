checkpoint_util --load-dir testdata/checkpoint --save-dir saved --target-tensor-parallel-size 3 \
    --target-pipeline-parallel-size 1
