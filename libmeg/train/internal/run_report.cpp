#include "libmeg/train/internal/run_report.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "libmeg/libtorch/device_figures.h"

// What a run prints and draws, by the revision of Megatron it follows. As in Megatron the last rank
// speaks: it is the one that has the losses of a pipeline. Timers are taken on all ranks, since
// their maximum needs a collective.

namespace meg::train {
namespace {

/// Memory that LibTorch's allocator holds on a GPU, zeros before its first tensor; nullopt for
/// CPUs.
std::optional<logging::DeviceMemory> device_memory(at::Device device) {
  if (device.is_cpu()) return std::nullopt;
  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
  if (!allocator->initialized()) return logging::DeviceMemory();
  const auto stats =
      allocator->getDeviceStats(device.has_index() ? device.index() : at::DeviceIndex{0});
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return logging::DeviceMemory{.allocated = stats.allocated_bytes[kAll].current,
                               .max_allocated = stats.allocated_bytes[kAll].peak,
                               .reserved = stats.reserved_bytes[kAll].current,
                               .max_reserved = stats.reserved_bytes[kAll].peak};
}

}  // namespace

Result<std::unique_ptr<RunReport>> RunReport::create(Options options,
                                                     const model::GptConfig& config,
                                                     const parallel::ParallelState& ranks,
                                                     Print print) {
  const bool speaks = ranks.world().rank() + 1 == ranks.world().size();
  if (!speaks) print = [](const std::string& /*line*/) {};
  std::unique_ptr<RunReport> report(
      new RunReport(std::move(options), config, ranks, std::move(print)));
  if (const auto& folder = report->options_.tensorboard_dir; folder.has_value() && speaks) {
    Result<logging::TensorboardWriter> writer = logging::TensorboardWriter::create(*folder, {});
    if (writer.has_value()) {
      report->tensorboard_.emplace(*std::move(writer));
    } else if (writer.error().code() == StatusCode::kResourceExhausted) {
      // A full disk must not end a run for its curves' sake; a folder that cannot be made is a
      // wrong flag and is reported.
      report->stop_drawing(writer.error());
    } else {
      return writer.error();
    }
  }
  return report;
}

void RunReport::draw(const std::function<Status(logging::TensorboardWriter& writer)>& points) {
  if (!tensorboard_.has_value()) return;
  if (const Status status = points(*tensorboard_); !status.ok()) stop_drawing(status);
}

void RunReport::stop_drawing(const Status& status) {
  print_(fmt::format("WARNING: {}: no further TensorBoard events are written", status.message()));
  tensorboard_.reset();
}

void RunReport::times(std::initializer_list<std::string_view> names) {
  const std::vector<logging::TimerTimes> parts = timers_.take(names, ranks_.world());
  for (const std::string& line : logging::timers_lines(options_.timers.log_option, parts, 1))
    print_(line);
}

void RunReport::memory(int64_t iteration) {
  // Say it once, after the first interval, when every buffer has been allocated, as Megatron's
  // report_memory does.
  if (std::exchange(memory_is_said_, true)) return;
  if (options_.memory.has_value()) {
    for (const std::string& line :
         model::theoretical_memory_lines(*options_.memory, /*verbose=*/true)) {
      print_(line);
    }
  }
  const std::optional<logging::DeviceMemory> used = device_memory(options_.timers.device);
  print_(used.has_value() ? logging::memory_line(ranks_.world().rank(), iteration, *used)
                          : logging::resident_memory_line(ranks_.world().rank(), iteration,
                                                          libtorch::peak_resident_bytes()));
}

void RunReport::interval(const logging::IterationFigures& figures) {
  const double elapsed = since_last_line_.seconds();
  const auto iterations = static_cast<double>(log_.iterations());
  since_last_line_ = Stopwatch();
  const logging::Throughput rate =
      logging::throughput(config_, figures.global_batch_size, elapsed / iterations,
                          ranks_.world().size(), options_.peak_tflops);
  const std::optional<double> tflops =
      options_.log_throughput ? std::optional(rate.tflops_per_device) : std::nullopt;
  print_(log_.iteration_line(figures, elapsed, std::time(nullptr), tflops));
  print_(logging::throughput_line(rate));
  memory(figures.iteration);
  const std::vector<logging::TimerTimes> parts =
      timers_.take({"forward-backward", "batch-generator", "optimizer"}, ranks_.world());
  for (const std::string& line :
       logging::timers_lines(options_.timers.log_option, parts, iterations)) {
    print_(line);
  }
  draw([&](logging::TensorboardWriter& writer) {
    return logging::write_times(writer, options_.curves, figures.iteration, elapsed / iterations,
                                tflops, parts, iterations);
  });
}

void RunReport::step(const logging::IterationFigures& figures, const logging::Losses& losses,
                     bool skipped) {
  log_.add(losses, skipped);
  draw([&](logging::TensorboardWriter& writer) {
    return logging::write_iteration(writer, options_.curves, figures, losses,
                                    ranks_.world().size());
  });
  if (figures.iteration % options_.log_interval == 0) interval(figures);
}

void RunReport::evaluation(logging::Evaluation kind, int64_t iteration,
                           int64_t consumed_train_samples, const logging::Losses& losses) {
  for (const std::string& line : logging::validation_lines(kind, iteration, losses)) print_(line);
  // The curves are the validation loss's. Megatron puts the test loss on them as well, at the same
  // iteration.
  if (kind == logging::Evaluation::kFinalTest) return;
  draw([&](logging::TensorboardWriter& writer) {
    return logging::write_validation(writer, options_.curves, iteration, consumed_train_samples,
                                     losses);
  });
}

void RunReport::flush() {
  draw([](logging::TensorboardWriter& writer) { return writer.flush(); });
}

}  // namespace meg::train
