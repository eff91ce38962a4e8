#pragma once

#include <string>

#include "tests/pretended_device/counts.h"

namespace meg::test {

/// Whether MEG_WRITE_BUDGET is set: what is found goes into budget.txt, whatever it is.
bool writes_budget();

/// Fails where a number of `found` is larger than budget.txt says for the scenario; says so where
/// one has become smaller. Prints what was launched.
void expect_within_budget(const std::string& scenario, const pretended::Counts& found);

}  // namespace meg::test
