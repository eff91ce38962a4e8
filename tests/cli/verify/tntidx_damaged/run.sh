# A header field, a size, an offset, a document index and .bin, each at a different place of the format.
cp testdata/golden/datasets/fairseq.idx damaged.idx
head -c 392 testdata/golden/datasets/fairseq.bin >damaged.bin
printf '\x02' | dd of=damaged.idx bs=1 seek=8 conv=notrunc status=none
printf '\x07' | dd of=damaged.idx bs=1 seek=72 conv=notrunc status=none
printf '\xff\xff\xff\xff\xff\xff\xff\xff' | dd of=damaged.idx bs=1 seek=400 conv=notrunc status=none
printf '\x63' | dd of=damaged.idx bs=1 seek=568 conv=notrunc status=none
verify dataset damaged
