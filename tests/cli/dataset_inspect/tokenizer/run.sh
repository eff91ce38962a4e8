# A dataset says which tokenizer it was made with, and every program that has another one refuses it.
printf '{"text": "Hello world"}\n{"text": "again"}\n' >in.jsonl
cp testdata/tokenizer/vocab.json testdata/tokenizer/merges.txt .
sed '$d' merges.txt >fewer.txt
files="--vocab-file vocab.json --merge-file merges.txt"
others="--vocab-file vocab.json --merge-file fewer.txt"
make() {
  preprocess_data --input in.jsonl --tokenizer-type GPT2BPETokenizer --workers 1 "$@" >/dev/null 2>&1 ||
    exit 9
}
make --output-prefix all $files
make --output-prefix all $files --shard 0/2
make --output-prefix all $files --shard 1/2
make --output-prefix other $others --resume
ls *.libmeg
cut -d: -f1 all_text_document.libmeg
merge_datasets all_shard00000of00002_text_document all_shard00001of00002_text_document \
  --output-prefix merged >/dev/null
cmp all_text_document.libmeg merged.libmeg && echo "merged: the same"
merge_datasets all_text_document other_text_document --output-prefix merged >/dev/null
test -e merged.libmeg || echo "of two: none"
cache() { prepare_cache --split 1,0,0 --seq-length 4 --samples 2,0,0 --data-cache-path cache "$@"; }
plain() { sed 's/[0-9a-f]\{32\}/HASH/g'; }
dataset_inspect all_text_document --document 0 --decode $files | tail -1
dataset_inspect all_text_document --document 0 --decode $others 2>&1 | plain
cache --data-path all_text_document $files >/dev/null 2>&1 && echo "cache: built"
cache --data-path all_text_document $others 2>&1 | plain
cache --data-path 1 merged 1 other_text_document $files 2>&1 | plain
cache --data-path all_text_document --tokenizer-type NullTokenizer --vocab-size 1000 >/dev/null 2>&1 &&
  echo "NullTokenizer: built"
echo "{" >all_text_document.libmeg
cache --data-path all_text_document $files
rm all_text_document.libmeg
cache --data-path all_text_document $others >/dev/null 2>&1 && echo "without the file: built"
