mkdir dist
touch dist/.metadata
verify checkpoint dist
echo "exit $?"
verify checkpoint nowhere
echo "exit $?"
mkdir empty
verify checkpoint empty
