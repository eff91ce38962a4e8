verify dataset testdata/golden/datasets/append_eod --vocab-size 30000 --eod 13
