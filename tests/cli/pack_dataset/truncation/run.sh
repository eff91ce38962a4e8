# Each rule for a conversation that is longer than a sequence.
flags="--seq-length 48 --tokenizer-type GPT2BPETokenizer --vocab-file testdata/tokenizer/vocab.json --merge-file testdata/tokenizer/merges.txt"
echo '{"prompt": "Count.", "completion": "One two three four five six seven eight nine ten eleven twelve."}' >chats.jsonl
echo '{"prompt": "a", "completion": "b"}' >>chats.jsonl
for method in right left drop; do
  echo "$method"
  pack_dataset --input chats.jsonl --output-prefix $method --chat-template nemotron-h-aligned --truncation-method $method \
    --packing-algorithm next_fit $flags --workers 1 | grep -v '^seconds: \|^conversations/s: \|^wrote'
  dataset_inspect $method | grep 'sequences\|tokens'
done
