checkpoint_util --load-dir testdata/checkpoint --save-dir hf --target-format huggingface \
    --true-vocab-size 60 | grep -v "^wrote"
ls hf
checkpoint_util --load-dir hf --save-dir back --make-vocab-size-divisible-by 8 \
    --target-tensor-parallel-size 2 | grep -v "^wrote"
ls back back/release
checkpoint_util --load-dir hf --save-dir dist --target-format torch_dist > /dev/null
checkpoint_util --load-dir dist --save-dir hf2 --target-format safetensors --true-vocab-size 60 \
    --target-params-dtype fp32 | grep note
verify checkpoint hf
for other in back dist hf2; do verify diff hf $other; done
checkpoint_util --load-dir hf --save-dir hf --target-format huggingface
