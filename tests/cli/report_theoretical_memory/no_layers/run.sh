report_theoretical_memory --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100
