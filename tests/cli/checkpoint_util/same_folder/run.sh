cp -r testdata/checkpoint load
checkpoint_util --load-dir load --save-dir load/../load --target-tensor-parallel-size 1 \
    --target-pipeline-parallel-size 1
code=$?
ls load
exit $code
