#include "tools/checkpoint_util/checkpoint_util_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <utility>

#include "tools/common/byte_size.h"
#include "tools/common/field_flags.h"

namespace meg::tools {
namespace {

// What a run needs beside the copying's buffers and what it holds after planning: threads' stacks,
// the allocator's slack, pages of the sources' directories.
constexpr int64_t kReserve = int64_t{12} << 20;
constexpr int64_t kLeastBuffers = int64_t{4} << 20;
constexpr int64_t kMebibyte = int64_t{1} << 20;

/// Bytes of memory that this process holds now.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace

void UtilReport::line(const std::string& text) const {
  if (json_) return;
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void UtilReport::notes(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    const std::string shown = with_flags(text);
    line("note: " + shown);
    object_["notes"].push_back(shown);
  }
}

void UtilReport::set(std::string_view name, nlohmann::ordered_json value) {
  object_[std::string(name)] = std::move(value);
}

void UtilReport::finish() const {
  if (json_) print_json(object_);
}

std::string source_text(const checkpoint::MegatronCheckpoint& checkpoint) {
  if (checkpoint.folder().format == checkpoint::CheckpointFormat::kHuggingFace) {
    return std::string(checkpoint::checkpoint_format_text(checkpoint.folder().format));
  }
  return fmt::format("{} names", model::name_family_text(checkpoint.family()));
}

std::string layout_text(int64_t tensor, int64_t pipeline, int64_t virtual_stages, int64_t experts) {
  std::string text = fmt::format("tensor {}, pipeline {}", tensor, pipeline);
  if (virtual_stages > 1) text += fmt::format(", virtual {}", virtual_stages);
  if (experts > 1) text += fmt::format(", expert {}", experts);
  return text;
}

Result<int64_t> buffer_bytes(const std::string& budget_text) {
  Result<int64_t> budget = parse_byte_size(budget_text);
  if (!budget.has_value()) return budget.error().with_prefix("--memory-budget");
  const int64_t needed = resident_bytes() + kReserve;
  if (*budget < needed + kLeastBuffers) {
    return make_error(StatusCode::kInvalidArgument,
                      "--memory-budget: expected at least {}MiB for this checkpoint, found {}",
                      (needed + kLeastBuffers + kMebibyte - 1) / kMebibyte, budget_text);
  }
  return *budget - needed;
}

void report_written(int64_t bytes, const checkpoint::SaveTimes& times, UtilReport& report) {
  const double rate =
      times.copy_seconds > 0 ? static_cast<double>(bytes) / times.copy_seconds / 1e9 : 0;
  report.set("bytes", bytes);
  report.set("seconds", times.copy_seconds + times.flush_seconds);
  report.line(fmt::format("wrote {} in {:.2f} s ({:.2f} GB/s), flushed to the device in {:.2f} s",
                          byte_size_text(bytes), times.copy_seconds, rate, times.flush_seconds));
}

}  // namespace meg::tools
