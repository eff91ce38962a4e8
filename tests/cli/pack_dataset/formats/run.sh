# OpenAI's, ShareGPT's and pairs; conversations without a use are counted.
flags="--seq-length 120 --tokenizer-type GPT2BPETokenizer --vocab-file testdata/tokenizer/vocab.json --merge-file testdata/tokenizer/merges.txt"
cat >chats.jsonl <<'END'
{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "Two plus two?"}, {"role": "assistant", "content": "Four."}]}
{"conversations": [{"from": "human", "value": "Name a colour."}, {"from": "gpt", "value": "Blue."}], "id": 3}
{"prompt": "Say hello.", "completion": "Hello!"}
{"messages": []}
{"messages": [{"role": "user", "content": "Nobody answers."}]}
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0}]}
END
pack_dataset --input chats.jsonl --output-prefix out --chat-template chatml --packed-parquet $flags --workers 1 >said
grep -v '^seconds: \|^conversations/s: ' said
cat out_packing.json
dataset_inspect out
dataset_inspect out_loss_mask
