#pragma once

#include <string_view>

namespace meg::cleaning {

/// The text of openwebtext_blacklist.txt.
std::string_view openwebtext_blacklist();

}  // namespace meg::cleaning
