# Its number of entries is the true size of the vocabulary.
printf '{"a": 0, "b": 1, "c": 2}' >vocab.json
checkpoint_util --load-dir testdata/checkpoint --vocab-file vocab.json --dry-run | head -4
