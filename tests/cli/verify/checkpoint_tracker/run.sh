cp -rL testdata/checkpoint checkpoint
chmod -R u+w checkpoint
printf 200 >checkpoint/latest_checkpointed_iteration.txt
verify checkpoint checkpoint
verify checkpoint checkpoint --iteration 100
