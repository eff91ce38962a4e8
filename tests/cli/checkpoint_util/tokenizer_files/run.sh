cp -r testdata/checkpoint loaded
files=loaded/iter_0000100/tokenizer
mkdir -p $files/more elsewhere
ln -s ../../../elsewhere $files/linked
echo '{}' >$files/tokenizer.json
reshape() {
  checkpoint_util --model-type GPT --load-dir loaded --save-dir $1 --target-tensor-parallel-size 2 \
      --target-pipeline-parallel-size 2 >/dev/null
}
reshape saved
find saved/iter_0000100/tokenizer
mkfifo $files/vocab.json
reshape again
code=$?
ls
exit $code
