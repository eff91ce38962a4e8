dataset_tool mend x
dataset_tool repair x
dataset_tool repair x --in-place --copy
dataset_tool repair x --in-place --drop-tail
dataset_tool exclude x --output-prefix y
