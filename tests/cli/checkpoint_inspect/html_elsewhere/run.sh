# Links are followed; what is no regular file is written straight.
checkpoint=testdata/checkpoint
checkpoint_inspect $checkpoint --html page.html >/dev/null
ln -s linked.html link.html
checkpoint_inspect $checkpoint --html link.html >/dev/null
readlink link.html
cmp page.html linked.html && echo same through a link
mkfifo pipe
cmp page.html <(cat pipe) && echo same through a pipe &
checkpoint_inspect $checkpoint --html pipe >/dev/null
wait
checkpoint_inspect $checkpoint --html /dev/stdout >both.txt
checkpoint_inspect $checkpoint >text.txt
cat page.html text.txt | cmp - both.txt && echo page and text on standard output
ls
