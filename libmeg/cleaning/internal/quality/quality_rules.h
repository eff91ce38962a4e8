#pragma once

#include <memory>

#include "libmeg/cleaning/internal/step.h"

namespace meg::cleaning {

// The quality rules of Gopher (Rae et al. 2021, table A1), C4 (Raffel et al. 2020) and FineWeb
// (Penedo et al. 2024), as datatrove 0.10 counts lines, words and characters. Its reasons are the
// names that they give.

std::unique_ptr<Step> make_gopher_repetition();
std::unique_ptr<Step> make_gopher_quality();
std::unique_ptr<Step> make_c4();
std::unique_ptr<Step> make_fineweb();

}  // namespace meg::cleaning
