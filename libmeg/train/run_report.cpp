#include "libmeg/train/run_report.h"

#include <fmt/format.h>

#include <ctime>
#include <utility>

namespace meg::train {
namespace {

constexpr int64_t kWorldSize = 1;

}  // namespace

Result<std::unique_ptr<RunReport>> RunReport::create(Options options, const GptConfig& config,
                                                     Print print) {
  std::unique_ptr<RunReport> report(new RunReport(std::move(options), config, std::move(print)));
  if (const auto& folder = report->options_.tensorboard_dir) {
    MEG_ASSIGN_OR_RETURN(TensorboardWriter writer, TensorboardWriter::create(*folder, {}));
    report->tensorboard_.emplace(std::move(writer));
  }
  return report;
}

void RunReport::times(std::initializer_list<std::string_view> names) {
  const std::vector<TimerTimes> parts = timers_.take(names);
  for (const std::string& line : timers_lines(options_.timers.log_option, parts, 1)) print_(line);
}

void RunReport::memory(int64_t iteration) {
  if (std::exchange(memory_is_said_, true)) return;
  if (options_.memory.has_value()) {
    for (const std::string& line : theoretical_memory_lines(*options_.memory, /*verbose=*/false)) {
      print_(line);
    }
  }
  const std::optional<DeviceMemory> used = device_memory(options_.timers.device);
  print_(used.has_value() ? memory_line(/*rank=*/0, iteration, *used)
                          : resident_memory_line(/*rank=*/0, iteration, peak_resident_bytes()));
}

Status RunReport::interval(const IterationFigures& figures) {
  const double elapsed = since_last_line_.seconds();
  const auto iterations = static_cast<double>(log_.iterations());
  since_last_line_ = Stopwatch();
  const Throughput rate = throughput(config_, figures.global_batch_size, elapsed / iterations,
                                     kWorldSize, options_.peak_tflops);
  const std::optional<double> tflops =
      options_.log_throughput ? std::optional(rate.tflops_per_device) : std::nullopt;
  print_(log_.iteration_line(figures, elapsed, std::time(nullptr), tflops));
  print_(throughput_line(rate));
  memory(figures.iteration);
  const std::vector<TimerTimes> parts =
      timers_.take({"forward-backward", "batch-generator", "optimizer"});
  for (const std::string& line : timers_lines(options_.timers.log_option, parts, iterations)) {
    print_(line);
  }
  if (!tensorboard_.has_value()) return {};
  return write_times(*tensorboard_, options_.curves, figures.iteration, elapsed / iterations,
                     tflops, parts, iterations);
}

Status RunReport::step(const IterationFigures& figures, const Losses& losses, bool skipped) {
  log_.add(losses, skipped);
  if (tensorboard_.has_value()) {
    MEG_RETURN_IF_ERROR(
        write_iteration(*tensorboard_, options_.curves, figures, losses, kWorldSize));
  }
  return figures.iteration % options_.log_interval == 0 ? interval(figures) : Status();
}

Status RunReport::evaluation(Evaluation kind, int64_t iteration, int64_t consumed_train_samples,
                             const Losses& losses) {
  for (const std::string& line : validation_lines(kind, iteration, losses)) print_(line);
  if (!tensorboard_.has_value() || kind == Evaluation::kFinalTest) return {};
  return write_validation(*tensorboard_, options_.curves, iteration, consumed_train_samples,
                          losses);
}

Status RunReport::flush() { return tensorboard_.has_value() ? tensorboard_->flush() : Status(); }

}  // namespace meg::train
