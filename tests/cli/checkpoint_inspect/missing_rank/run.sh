cp -rL testdata/checkpoint copy
chmod -R u+w copy
rm -r copy/iter_0000100/mp_rank_01_001
checkpoint_inspect copy
