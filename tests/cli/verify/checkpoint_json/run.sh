verify checkpoint testdata/checkpoint --json
