# A cache cut short is built again, with the reason.
run() {
  prepare_cache --data-path testdata/golden/datasets/mm_int32 --split 1,0,0 --seq-length 8 \
    --samples 20,0,0 --data-cache-path cache --tokenizer-type NullTokenizer --vocab-size 1000 |
    sed 's/, [0-9.]* s$//'
}
run >/dev/null
truncate -s -4 cache/*-document_index.npy
run
run | grep train:
