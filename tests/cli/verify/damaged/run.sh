# Every kind of damage at once: a negative length, pointers, document indices, the size of .bin.
cp testdata/golden/datasets/uint16.idx damaged.idx
head -c 100 testdata/golden/datasets/uint16.bin >damaged.bin
printf '\xff\xff\xff\xff' | dd of=damaged.idx bs=1 seek=42 conv=notrunc status=none
printf '\x63' | dd of=damaged.idx bs=1 seek=230 conv=notrunc status=none
verify dataset damaged
