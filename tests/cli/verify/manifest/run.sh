cp -rL testdata/checkpoint checkpoint
chmod -R u+w checkpoint
verify manifest checkpoint
echo "exit $?"
verify manifest checkpoint --write
verify manifest checkpoint
verify manifest testdata/checkpoint --manifest checkpoint/iter_0000100/libmeg-manifest.json --json
head -c 300 checkpoint/iter_0000100/libmeg-manifest.json
echo
# The CRC of the archive is the first to notice a flipped bit, the digest the second.
printf '\x99' | dd of=checkpoint/iter_0000100/mp_rank_01_001/model_optim_rng.pt bs=1 seek=21391 conv=notrunc status=none
verify manifest checkpoint
echo "exit $?"
verify manifest checkpoint --no-crc
