dataset_tool stat testdata/golden/datasets/append_eod --top 3
dataset_tool stat testdata/golden/datasets/uint16 --top 1 --json
dataset_tool stat testdata/golden/datasets/fairseq
