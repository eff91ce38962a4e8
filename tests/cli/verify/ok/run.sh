verify dataset testdata/golden/datasets/append_eod --vocab-size 50257 --eod 50256
