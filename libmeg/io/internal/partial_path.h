#pragma once

#include <string>
#include <string_view>

namespace meg::io {

/// `<path>.partial-<pid>-<number>`, where an output is written until it is whole; the number is new
/// with every call.
std::string next_partial_path(const std::string& path);

/// Whether `name`, without folders, is one that next_partial_path(path) gives some process.
bool is_partial_name(std::string_view name, const std::string& path);

/// The folder that path's last component is in.
std::string folder_above(const std::string& path);

}  // namespace meg::io
