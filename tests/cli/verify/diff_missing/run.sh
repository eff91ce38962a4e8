verify diff testdata/checkpoint nowhere
echo "exit $?"
verify diff testdata/checkpoint testdata/checkpoint --name '('
echo "exit $?"
verify diff testdata/checkpoint
