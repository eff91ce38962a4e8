# What it needs, and values that it does not have.
pack_dataset --input a.jsonl --output-prefix out --seq-length 8
echo "exit $?"
pack_dataset --input a.jsonl --output-prefix out --seq-length 0 --tokenizer-type NullTokenizer --vocab-size 9
echo "exit $?"
pack_dataset --input a.jsonl --output-prefix out --seq-length 8 --tokenizer-type NullTokenizer --vocab-size 9 --truncation-method middle
echo "exit $?"
echo '{"prompt": "1 2", "completion": "3"}' >a.jsonl
pack_dataset --input a.jsonl --output-prefix out --seq-length 8 --tokenizer-type NullTokenizer --vocab-size 9
echo "exit $?"
pack_dataset --input a.jsonl --output-prefix out --seq-length 8 --tokenizer-type NullTokenizer --vocab-size 9 --chat-template chatmll
echo "exit $?"
pack_dataset --input a.jsonl --output-prefix out --seq-length 8 --load nowhere --chat-template chatml
echo "exit $?"
pack_dataset --input a.jsonl --output-prefix out --seq-length 8 --load testdata/checkpoint --chat-template chatml
echo "exit $?"
ls
