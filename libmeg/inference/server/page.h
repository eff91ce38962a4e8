#pragma once

#include <string_view>

namespace meg::inference {

/// The server's page, server/page.html: HTML that needs nothing else.
std::string_view page_html();

}  // namespace meg::inference
