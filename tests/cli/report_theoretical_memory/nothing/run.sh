report_theoretical_memory --micro-batch-size 2
