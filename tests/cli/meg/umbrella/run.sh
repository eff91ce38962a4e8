meg verify checkpoint testdata/checkpoint
meg checkpoint_util --load-dir testdata/checkpoint --dry-run | head -1
meg checkpoint-inspect nowhere
echo $?
meg nothing 2>&1 | grep -o "found .*"
meg 2>/dev/null
