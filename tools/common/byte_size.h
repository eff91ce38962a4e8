#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"

namespace meg::tools {

/// "512MiB", "2GiB", "1.5G", "4KB" or plain bytes: KiB, MiB, GiB, TiB and K, M, G, T count by 1024,
/// KB, MB, GB, TB by 1000; case does not matter. kInvalidArgument for everything else.
Result<int64_t> parse_byte_size(std::string_view text);

/// "1.42 GB", by 1000; "999 bytes" below 1000.
std::string byte_size_text(int64_t bytes);

/// "wrote WHAT (1.42 GB)", the line with which programs report an output. The size is that of these
/// files on the disk; omitted if none of them is a regular file, because pipes and devices have no
/// size.
std::string written_text(std::string_view what, std::span<const std::string> files);

}  // namespace meg::tools
