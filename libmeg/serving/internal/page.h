#pragma once

#include <string_view>

namespace meg::serving {

/// The server's page, page.html: HTML that needs nothing else.
std::string_view page_html();

}  // namespace meg::serving
