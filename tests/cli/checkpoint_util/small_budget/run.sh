checkpoint_util --load-dir testdata/checkpoint --save-dir saved --target-tensor-parallel-size 1 \
    --target-pipeline-parallel-size 1 --memory-budget 1MiB 2>stderr
code=$?
sed 's/at least [0-9]*MiB/at least N MiB/' stderr >&2
ls
exit $code
