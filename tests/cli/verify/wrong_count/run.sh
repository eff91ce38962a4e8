cp testdata/golden/datasets/uint16.bin damaged.bin
cp testdata/golden/datasets/uint16.idx damaged.idx
printf '\x99' | dd of=damaged.idx bs=1 seek=18 conv=notrunc status=none
verify dataset damaged
head -c 120 testdata/golden/datasets/uint16.idx >damaged.idx
verify dataset damaged
dataset_inspect damaged
