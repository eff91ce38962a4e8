# A template is a file of Jinja: endless ones end, and none reads a file.
flags="--seq-length 64 --tokenizer-type GPT2BPETokenizer --vocab-file testdata/tokenizer/vocab.json --merge-file testdata/tokenizer/merges.txt"
echo '{"prompt": "a", "completion": "b"}' >a.jsonl
try() {
  printf '%s' "$1" >t.jinja
  pack_dataset --input a.jsonl --output-prefix out --chat-template t.jinja $flags
  echo "exit $?"
}
try "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
try "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"
try "{% set ns = namespace(t='x') %}{% for i in range(999) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ ns.t }}"
try "{% include '/etc/passwd' %}"
try "{{ open('/etc/passwd').read() }}"
try "{{ messages.__class__.__mro__ }}"
try "{% for message in messages %}"
try "{{ raise_exception('no ' + messages[0].role) }}"
ls
