tokenizer="--tokenizer-type GPT2BPETokenizer --vocab-file testdata/tokenizer/vocab.json --merge-file testdata/tokenizer/merges.txt"
preprocess_data --input testdata/quickstart/english.jsonl --output-prefix corpus --append-eod $tokenizer >/dev/null
rm corpus_text_document.libmeg
dataset_tool provenance corpus_text_document --input testdata/quickstart/english.jsonl $tokenizer
dataset_tool provenance corpus_text_document --input testdata/quickstart/english.jsonl --append-eod $tokenizer --output-prefix corpus |
  grep -v seconds
dataset_inspect corpus_text_document --trace --document 17
dataset_tool provenance corpus_text_document --input testdata/quickstart/english.jsonl --append-eod $tokenizer
rm corpus_text_document.provenance
head -n 90 testdata/quickstart/english.jsonl >part.jsonl
dataset_tool provenance corpus_text_document --input part.jsonl --append-eod $tokenizer --missing-list missing.txt | grep -v seconds
cat missing.txt
dataset_tool provenance corpus_text_document --input part.jsonl
