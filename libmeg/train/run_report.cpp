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
    Result<TensorboardWriter> writer = TensorboardWriter::create(*folder, {});
    if (writer.has_value()) {
      report->tensorboard_.emplace(*std::move(writer));
    } else if (writer.error().code() == StatusCode::kResourceExhausted) {
      report->stop_drawing(writer.error());
    } else {
      return writer.error();
    }
  }
  return report;
}

void RunReport::draw(const std::function<Status(TensorboardWriter& writer)>& points) {
  if (!tensorboard_.has_value()) return;
  if (const Status status = points(*tensorboard_); !status.ok()) stop_drawing(status);
}

void RunReport::stop_drawing(const Status& status) {
  print_(fmt::format("WARNING: {}: nothing more is written for TensorBoard", status.message()));
  tensorboard_.reset();
}

void RunReport::times(std::initializer_list<std::string_view> names) {
  const std::vector<TimerTimes> parts = timers_.take(names);
  for (const std::string& line : timers_lines(options_.timers.log_option, parts, 1)) print_(line);
}

void RunReport::memory(int64_t iteration) {
  if (std::exchange(memory_is_said_, true)) return;
  if (options_.memory.has_value()) {
    for (const std::string& line : theoretical_memory_lines(*options_.memory, /*verbose=*/true)) {
      print_(line);
    }
  }
  const std::optional<DeviceMemory> used = device_memory(options_.timers.device);
  print_(used.has_value() ? memory_line(/*rank=*/0, iteration, *used)
                          : resident_memory_line(/*rank=*/0, iteration, peak_resident_bytes()));
}

void RunReport::interval(const IterationFigures& figures) {
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
  draw([&](TensorboardWriter& writer) {
    return write_times(writer, options_.curves, figures.iteration, elapsed / iterations, tflops,
                       parts, iterations);
  });
}

void RunReport::step(const IterationFigures& figures, const Losses& losses, bool skipped) {
  log_.add(losses, skipped);
  draw([&](TensorboardWriter& writer) {
    return write_iteration(writer, options_.curves, figures, losses, kWorldSize);
  });
  if (figures.iteration % options_.log_interval == 0) interval(figures);
}

void RunReport::evaluation(Evaluation kind, int64_t iteration, int64_t consumed_train_samples,
                           const Losses& losses) {
  for (const std::string& line : validation_lines(kind, iteration, losses)) print_(line);
  if (kind == Evaluation::kFinalTest) return;
  draw([&](TensorboardWriter& writer) {
    return write_validation(writer, options_.curves, iteration, consumed_train_samples, losses);
  });
}

void RunReport::flush() {
  draw([](TensorboardWriter& writer) { return writer.flush(); });
}

}  // namespace meg::train
