# Many processes ask for the same caches at once: one builds each, all load it.
run() {
  prepare_cache --data-path 0.5 testdata/golden/datasets/mm_int32 0.5 testdata/golden/datasets/uint16 \
    --split 5,2,0 --seq-length 8 --samples 2000,30,0 --data-cache-path cache \
    --tokenizer-type NullTokenizer --vocab-size 1000 >out.$1 2>err.$1
  echo $? >code.$1
}
for i in 1 2 3 4 5 6 7 8; do run $i & done
wait
sort -u code.*
cat out.* | grep -c ': built,'
cat out.* | grep -c ': rebuilt,'
cat out.* | grep ': found,\|: built,' | sed 's/: found,/: there,/; s/: built,/: there,/; s/, [0-9.]* s$//' | sort -u
ls cache | grep -c .
