#include "libmeg/logging/checkpoint_log.h"

#include <fmt/format.h>

#include "libmeg/logging/training_log.h"

namespace meg::logging {

using megatron::CheckpointLines;

std::string CheckpointLog::date(Time now) const {
  if (form_ < CheckpointLines::kDated) return "";
  const auto second = std::chrono::floor<std::chrono::seconds>(now);
  const auto micros = std::chrono::floor<std::chrono::microseconds>(now - second);
  return fmt::format("[{}.{:06d}] ", log_time(std::chrono::system_clock::to_time_t(second)),
                     micros.count());
}

std::string CheckpointLog::rank_text(const ModelRank& rank) const {
  if (form_ < CheckpointLines::kRankOfAll) {
    return fmt::format("[ t {}, p {} ]", rank.tensor_rank, rank.pipeline_rank);
  }
  return fmt::format("[ t {}/{}, {}p {}/{} ]", rank.tensor_rank + 1, rank.tensor_size,
                     form_ < CheckpointLines::kRemat ? "" : "gtp_remat 1/1, ",
                     rank.pipeline_rank + 1, rank.pipeline_size);
}

std::string CheckpointLog::saving_line(int64_t iteration, std::string_view folder,
                                       std::string_view format, Time now) const {
  std::string line =
      fmt::format("{}saving checkpoint at iteration {:7} to {}", date(now), iteration, folder);
  if (form_ >= CheckpointLines::kFormat)
    fmt::format_to(std::back_inserter(line), " in {} format", format);
  return line;
}

std::string CheckpointLog::saved_line(int64_t iteration, std::string_view folder,
                                      const ModelRank& rank, Time now) const {
  std::string line =
      fmt::format("  {}successfully saved checkpoint {} iteration {:7} to {}", date(now),
                  form_ < CheckpointLines::kFrom ? "at" : "from", iteration, folder);
  if (form_ >= CheckpointLines::kRankOfAll) line += " " + rank_text(rank);
  return line;
}

std::string CheckpointLog::loading_line(int64_t iteration, std::string_view folder, bool is_release,
                                        bool is_distributed) const {
  const char* kind = is_distributed ? "distributed " : "";
  if (is_release && form_ >= CheckpointLines::kRelease) {
    return fmt::format(" loading release {}checkpoint from {}", kind, folder);
  }
  return fmt::format(" loading {}checkpoint from {} at iteration {}", kind, folder, iteration);
}

std::string CheckpointLog::loaded_line(int64_t iteration, std::string_view folder,
                                       const ModelRank& rank) const {
  return fmt::format("  successfully loaded checkpoint from {}{} at iteration {}", folder,
                     form_ < CheckpointLines::kFormat ? "" : " " + rank_text(rank), iteration);
}

}  // namespace meg::logging
