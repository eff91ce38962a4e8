# A rank that was never written, one cut short, one with a flipped bit.
cp -rL testdata/checkpoint checkpoint
chmod -R u+w checkpoint
rm checkpoint/iter_0000100/mp_rank_01_001/model_optim_rng.pt
truncate -s 20000 checkpoint/iter_0000100/mp_rank_00_001/model_optim_rng.pt
printf '\x99' | dd of=checkpoint/iter_0000100/mp_rank_01_000/model_optim_rng.pt bs=1 seek=21001 conv=notrunc status=none
verify checkpoint checkpoint
