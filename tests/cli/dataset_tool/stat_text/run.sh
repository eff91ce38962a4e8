tokenizer="--tokenizer-type GPT2BPETokenizer --vocab-file testdata/tokenizer/vocab.json --merge-file testdata/tokenizer/merges.txt"
preprocess_data --input testdata/quickstart/english.jsonl --output-prefix corpus --append-eod $tokenizer >/dev/null
dataset_tool concat corpus_text_document corpus_text_document --output-prefix twice >/dev/null
dataset_tool stat twice --top 4 --html pages/twice.html $tokenizer | sed 's/(.* kB)/(SIZE)/'
grep -c '<svg' pages/twice.html
grep -o '<h2>.*</h2>' pages/twice.html
dataset_tool stat twice --tokenizer-type NullTokenizer --vocab-size 9
