#pragma once

#include <arrow/io/interfaces.h>

#include <memory>

#include "libmeg/base/result.h"
#include "libmeg/preprocess/sources/internal/input_file.h"

namespace meg::preprocess {

/// `file`, which must outlive it, as Arrow reads files.
Result<std::shared_ptr<arrow::io::RandomAccessFile>> arrow_input(const InputFile& file);

}  // namespace meg::preprocess
