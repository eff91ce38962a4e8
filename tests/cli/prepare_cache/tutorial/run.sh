# The command line of a training run, its program's name alone changed.
prepare_cache --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 8 \
  --max-position-embeddings 1024 --micro-batch-size 2 --global-batch-size 4 --lr 0.00015 \
  --train-iters 20 --lr-decay-iters 320000 --lr-decay-style cosine --min-lr 1.0e-5 \
  --weight-decay 1e-2 --lr-warmup-fraction .01 --clip-grad 1.0 --fp16 \
  --data-path testdata/golden/datasets/mm_int32 --vocab-file gpt2-vocab.json \
  --merge-file gpt2-merges.txt --split 5,1,1 --log-interval 100 --save-interval 10000 \
  --eval-interval 10 --eval-iters 1 --distributed-backend nccl --save checkpoints \
  --load checkpoints --data-cache-path cache | sed 's/, [0-9.]* s$//'
