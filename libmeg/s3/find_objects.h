#pragma once

#include <string>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::s3 {

/// Addresses of the objects that `address` names, sorted by their bytes: one object; otherwise, for
/// a folder, the objects directly below it that are not hidden, or those that match a pattern of *,
/// ? and [], none of which matches a slash. An object with exactly that address takes precedence
/// over a folder or pattern. Errors: kNotFound if there are none, those of ObjectStore.
Result<std::vector<std::string>> find_objects(const std::string& address);

}  // namespace meg::s3
