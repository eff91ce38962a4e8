mkdir disk
ln -s disk saved
for tensor in 4 1; do
  checkpoint_util --load-dir testdata/checkpoint --save-dir saved --target-tensor-parallel-size $tensor \
      --target-pipeline-parallel-size 1 | grep 'successfully saved'
  find disk -type f | sort
done
cat disk/latest_checkpointed_iteration.txt
echo
readlink saved
