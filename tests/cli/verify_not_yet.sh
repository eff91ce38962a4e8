for what in checkpoint diff manifest; do
  verify $what a b
  echo "exit $?"
done
