verify dataset testdata/golden/datasets/fairseq.bin
