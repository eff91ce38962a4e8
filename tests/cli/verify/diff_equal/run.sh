verify diff testdata/checkpoint testdata/checkpoint/iter_0000100
verify diff testdata/checkpoint testdata/checkpoint --no-optim --name 'layers\.2\.' --json
