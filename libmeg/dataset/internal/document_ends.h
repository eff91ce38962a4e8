#pragma once

#include <cstdint>
#include <functional>

#include "libmeg/base/dtype.h"
#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::dataset {

/// Calls `take` with the place behind every item of a .bin that equals `eod`, in items, in order,
/// and returns the number of whole items. dtype: of integers, which `eod` is one of. Threads read;
/// `take` is called by one at a time. Errors of reading and of `take`, kCancelled.
Result<int64_t> find_document_ends(const io::FileDescriptor& bin, DType dtype, int64_t eod,
                                   int workers, const ProgressCallback& progress,
                                   const std::function<Status(int64_t end)>& take);

}  // namespace meg::dataset
