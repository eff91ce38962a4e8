#pragma once

#include <string>
#include <vector>

#include "libmeg/logging/run_findings.h"
#include "libmeg/logging/run_log.h"

namespace meg::tools {

/// The page of verify run: the runs in a log, what was found, and the curves with the places where
/// it was found.
std::string run_page(const logging::RunLog& log, const std::vector<logging::RunFinding>& findings);

}  // namespace meg::tools
