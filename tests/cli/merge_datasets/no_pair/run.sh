mkdir parts
cp testdata/golden/datasets/mm_int32.bin parts/lonely.bin
merge_datasets --input parts --output-prefix out
