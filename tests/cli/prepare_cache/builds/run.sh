# Built at first, found again, and the files of both.
run() {
  prepare_cache --data-path testdata/golden/datasets/mm_int32 --split 5,2,0 --seq-length 8 \
    --samples 20,3,2 --data-cache-path cache --tokenizer-type NullTokenizer --vocab-size 1000 |
    sed 's/, [0-9.]* s$//'
}
run
run
ls cache
