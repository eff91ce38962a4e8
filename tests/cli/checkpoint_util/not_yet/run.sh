for flags in "--model-type BERT" "--loader llama_mistral" \
    "--checkpoint-type meta" "--target-expert-parallel-size 2"; do
  checkpoint_util --load-dir testdata/checkpoint --save-dir saved $flags
  echo "exit code $?"
done
ls
