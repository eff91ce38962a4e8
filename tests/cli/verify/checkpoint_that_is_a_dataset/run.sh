prefix=testdata/golden/datasets/uint16
for command in "checkpoint $prefix" "diff $prefix $prefix" "manifest $prefix"; do
  verify $command
  echo "exit $?"
done
checkpoint_inspect $prefix
echo "exit $?"
checkpoint_util --load-dir $prefix --save-dir none
echo "exit $?"
verify dataset testdata/checkpoint
