#pragma once

#include "libmeg/cleaning/clean.h"

namespace meg::tools {

/// Prints what a run did. is_dataset: the outputs are datasets, not files of lines.
void print_clean_summary(const cleaning::CleanSummary& summary, bool is_dataset, double seconds);

/// The same as one JSON object.
void print_clean_json(const cleaning::CleanSummary& summary, double seconds);

}  // namespace meg::tools
