# A bit of a weight of the second stage's second tensor rank.
cp -rL testdata/checkpoint checkpoint
chmod -R u+w checkpoint
printf '\x99' | dd of=checkpoint/iter_0000100/mp_rank_01_001/model_optim_rng.pt bs=1 seek=21391 conv=notrunc status=none
verify diff testdata/checkpoint checkpoint
