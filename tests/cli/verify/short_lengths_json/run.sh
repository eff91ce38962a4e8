verify dataset testdata/golden/datasets/append_eod_6ef5bdc --json
