# A dataset of both formats under one name: the same caches, each found where the other was built.
write() {
  preprocess_data --input testdata/quickstart/english.jsonl --max-documents 20 --output-prefix $1/data --dtype int32 \
    --dataset-impl $1 --tokenizer-type GPT2BPETokenizer --vocab-file testdata/tokenizer/vocab.json \
    --merge-file testdata/tokenizer/merges.txt >/dev/null 2>&1
}
cache() {
  (cd $1 && prepare_cache --data-path data_text_document --split 5,2,0 --seq-length 8 --samples 20,3,0 \
    --data-cache-path cache --data-impl $2 --tokenizer-type NullTokenizer --vocab-size 3000 | sed 's/, [0-9.]* s$//')
}
write mmap && write lazy
cache mmap mmap >mmap.txt && cache lazy cached >lazy.txt && diff mmap.txt lazy.txt
for file in mmap/cache/*.npy; do cmp "$file" "lazy/${file#mmap/}" && echo same; done
cache lazy infer | grep -c found,
cd mmap && prepare_cache --data-path data_text_document --split 5,2,0 --seq-length 8 --samples 20,3,0 \
  --data-cache-path cache --data-impl lazy --tokenizer-type NullTokenizer --vocab-size 3000
