#pragma once

#include <string>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::s3 {

/// Addresses of the objects that `address` names, sorted by their bytes: one object; else, as of a
/// folder, those right below it that are not hidden; or those that match a pattern of *, ? and [],
/// none of which matches a slash. An object of that very address goes before a folder or pattern.
/// Errors: kNotFound where there are none, those of ObjectStore.
Result<std::vector<std::string>> find_objects(const std::string& address);

}  // namespace meg::s3
