#pragma once

#include <optional>
#include <string_view>

#include "libmeg/base/dtype.h"

namespace meg::checkpoint {

/// The class of a typed storage in the module torch, such as "FloatStorage"; empty for dtypes that
/// torch keeps in untyped storages.
std::string_view torch_storage_class(DType dtype);

/// The inverse of torch_storage_class().
std::optional<DType> dtype_of_torch_storage(std::string_view class_name);

}  // namespace meg::checkpoint
