printf '{"text": ["Hello world,", " again\\nand again"]}\n{"text": ""}\n' >in.jsonl
files="--vocab-file testdata/tokenizer/vocab.json --merge-file testdata/tokenizer/merges.txt"
preprocess_data --input in.jsonl --output-prefix out --tokenizer-type GPT2BPETokenizer $files \
  --append-eod --workers 1 >/dev/null 2>&1 || exit 9
dataset_inspect out_text_document --document 0 --decode $files
dataset_inspect out_text_document --document 1 --sequence 1 --decode $files --json
