#pragma once

#include <string>

#include "libmeg/cleaning/clean.h"

namespace meg::tools {

/// A page with pictures of what a run did, complete in itself. command: as it was typed.
std::string clean_report_page(const cleaning::CleanSummary& summary, const std::string& command,
                              double seconds);

}  // namespace meg::tools
