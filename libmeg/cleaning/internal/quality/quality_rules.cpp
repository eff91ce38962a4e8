#include "libmeg/cleaning/internal/quality/quality_rules.h"

#include <span>
#include <string>
#include <string_view>

namespace meg::cleaning {
namespace {

constexpr std::string_view kRules[] = {"gopher_repetition", "gopher_quality", "c4", "fineweb"};

}  // namespace

std::span<const std::string_view> quality_rules() { return kRules; }

StepPlan plan_quality(const std::string& name) {
  StepPlan plan{.name = name, .make = {}};
  if (name == kRules[0]) plan.make = make_gopher_repetition;
  if (name == kRules[1]) plan.make = make_gopher_quality;
  if (name == kRules[2]) plan.make = make_c4;
  if (name == kRules[3]) plan.make = make_fineweb;
  return plan;
}

}  // namespace meg::cleaning
