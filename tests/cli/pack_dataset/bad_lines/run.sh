# Each is refused by its line, and counted with --on-error skip; nothing is left of a run that failed.
flags="--seq-length 64 --tokenizer-type GPT2BPETokenizer --vocab-file testdata/tokenizer/vocab.json --merge-file testdata/tokenizer/merges.txt"
cat >lines <<'END'
{"messages": [{"role": "alien", "content": "a"}]}
{"messages": [{"role": "user"}, {"role": "assistant", "content": "b"}]}
{"messages": [{"role": "user", "content": null}, {"role": "assistant", "content": "b"}]}
{"messages": [{"role": "user", "content": 3}, {"role": "assistant", "content": "b"}]}
{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "assistant", "content": "b"}]}
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]}
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0.5}]}
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": [{"type": "function"}]}
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": "no JSON"}
{"prompt": "a"}
{"text": "a"}
END
n=0
while IFS= read -r line; do
  n=$((n + 1))
  echo "$line" >$n.jsonl
  pack_dataset --input $n.jsonl --output-prefix out --chat-template chatml $flags && echo "taken: $line"
done <lines
ls
echo '{"prompt": "a", "completion": "b"}' >>lines
pack_dataset --input lines --output-prefix out --chat-template chatml --on-error skip $flags --workers 1 | grep -v '^seconds: \|^conversations/s: '
