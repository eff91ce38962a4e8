#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/convert/reshard.h"
#include "tools/common/json_output.h"

namespace meg::tools {

/// What the program tells its user: lines on standard output, at once, or with --json one object at
/// the end.
class UtilReport {
 public:
  explicit UtilReport(bool json) : json_(json), object_(json_object()) {}

  /// Not with --json.
  void line(const std::string& text) const;

  void notes(const std::vector<std::string>& texts);

  /// A field of the object.
  void set(std::string_view name, nlohmann::ordered_json value);

  /// Prints the object.
  void finish() const;

 private:
  bool json_;
  nlohmann::ordered_json object_;
};

/// "mcore (local) names", or the format of what holds no names of Megatron's.
std::string source_text(const checkpoint::MegatronCheckpoint& checkpoint);

/// "tensor 2, pipeline 4, virtual 2, expert 8"
std::string layout_text(int64_t tensor, int64_t pipeline, int64_t virtual_stages,
                        int64_t experts = 1);

/// What of --memory-budget is left for buffers, now that the plan is made.
Result<int64_t> buffer_bytes(const std::string& budget_text);

/// How much was written, and how fast.
void report_written(int64_t bytes, const checkpoint::SaveTimes& times, UtilReport& report);

}  // namespace meg::tools
