#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"

namespace meg::cleaning {

/// A document on its way through the steps.
struct Document {
  std::string_view json;  ///< The object that holds it, as JsonMembers needs it; else empty.
  std::string_view text;  ///< UTF-8 with text::kTextPadding readable bytes after it.
};

/// One thing that is done with documents. Belongs to one thread.
class Step {
 public:
  virtual ~Step() = default;

  /// Why the document goes; empty where it stays. A step that changes the text keeps the new one
  /// until the next call.
  virtual Result<std::string_view> run(Document& document) = 0;
};

/// A step of a run, made once for every thread.
struct StepPlan {
  std::string name;
  std::function<std::unique_ptr<Step>()> make;
};

/// The steps that options ask for, in order, that need no other document. kInvalidArgument for
/// wrong values.
Result<std::vector<StepPlan>> plan_steps(const CleanOptions& options);

}  // namespace meg::cleaning
