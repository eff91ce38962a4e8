#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "libmeg/base/wire_reader.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/logging/figure_names.h"
#include "libmeg/logging/internal/tf_record.h"
#include "libmeg/logging/run_log.h"

// Event files as tensorboard_writer.h describes them, and as torch's SummaryWriter writes them. The
// points of one step follow one another; a curve that has the step already begins another run's.

namespace meg::logging {
namespace {

/// One point of a curve.
struct Point {
  std::string_view tag;
  int64_t step = 0;
  float value = 0;
};

constexpr std::string_view kIsEventFile = "tfevents";
/// Half a unit of the last bit of fp32, relative.
constexpr double kRounding = 0x1p-24;

LoggedFigure figure_of(double value) {
  return {.value = value, .rounding = std::abs(value) * kRounding};
}

class CurveReader {
 public:
  explicit CurveReader(RunLog& log) : log_(log) {}

  void add(const Point& point) {
    namespace names = figure_names;
    if (point.tag.ends_with(kVersusSamples)) return add_samples(point);
    const auto value = static_cast<double>(point.value);
    const auto is = [&point](const FigureName& name) { return point.tag == name.tag; };
    if (point.tag.ends_with(kOfValidation)) return add_validation(point);
    if (is(names::kLearningRate)) {
      steps_of(point, &LoggedSteps::learning_rate).learning_rate = figure_of(value);
    } else if (is(names::kLossScale)) {
      steps_of(point, &LoggedSteps::loss_scale).loss_scale = figure_of(value);
    } else if (is(names::kGradNorm)) {
      steps_of(point, &LoggedSteps::grad_norm).grad_norm = figure_of(value);
    } else if (is(names::kParamsNorm)) {
      steps_of(point, &LoggedSteps::params_norm).params_norm = figure_of(value);
    } else if (is(names::kElapsedTime)) {
      steps_of(point, &LoggedSteps::milliseconds).milliseconds = figure_of(value * 1000);
    } else if (is(names::kBatchSize)) {
      if (value >= 1 && value < 1e9) {
        steps_of(point, &LoggedSteps::batch_size).batch_size = static_cast<int64_t>(value);
      }
    } else if (point.tag.ends_with("loss")) {
      add_loss(point);
    }
  }

 private:
  /// The steps that a point is about: the last ones, unless they are others or have such a point.
  template <class T>
  LoggedSteps& steps_of(const Point& point, std::optional<T> LoggedSteps::*field) {
    const bool is_last = !log_.steps.empty() && log_.steps.back().iteration == point.step &&
                         !(log_.steps.back().*field).has_value();
    if (!is_last) log_.steps.emplace_back().iteration = point.step;
    return log_.steps.back();
  }

  void add_loss(const Point& point) {
    const bool has_it =
        !log_.steps.empty() && log_.steps.back().iteration == point.step &&
        std::any_of(log_.steps.back().losses.begin(), log_.steps.back().losses.end(),
                    [&point](const auto& loss) { return loss.first == point.tag; });
    if (log_.steps.empty() || log_.steps.back().iteration != point.step || has_it) {
      log_.steps.emplace_back().iteration = point.step;
    }
    log_.steps.back().losses.emplace_back(point.tag, figure_of(static_cast<double>(point.value)));
  }

  /// The step of such a point is the number of samples, its value that of the point before it.
  void add_samples(const Point& point) {
    const std::string_view tag = point.tag.substr(0, point.tag.size() - kVersusSamples.size());
    if (tag != figure_names::kLearningRate.tag || log_.steps.empty()) return;
    log_.steps.back().consumed_samples = point.step;
  }

  void add_validation(const Point& point) {
    if (log_.validations.empty() || log_.validations.back().iteration != point.step) {
      log_.validations.emplace_back().iteration = point.step;
    }
    log_.validations.back().losses.emplace_back(
        point.tag.substr(0, point.tag.size() - kOfValidation.size()),
        figure_of(static_cast<double>(point.value)));
  }

  RunLog& log_;
};

Status read_value(std::string_view bytes, int64_t step, CurveReader& curves) {
  Point point{.tag = {}, .step = step, .value = 0};
  bool is_scalar = false;
  for (WireReader fields(bytes); !fields.at_end();) {
    MEG_ASSIGN_OR_RETURN(const WireField field, fields.next());
    if (field.number == 1 && field.type == WireType::kBytes) point.tag = field.bytes;
    if (field.number == 2 && field.type == WireType::kFixed32) {
      point.value = std::bit_cast<float>(static_cast<uint32_t>(field.value));
      is_scalar = true;
    }
  }
  if (is_scalar) curves.add(point);
  return {};
}

Status read_event(std::string_view bytes, CurveReader& curves) {
  // An event may have its step after its values.
  int64_t step = 0;
  std::string_view summary;
  for (WireReader fields(bytes); !fields.at_end();) {
    MEG_ASSIGN_OR_RETURN(const WireField field, fields.next());
    if (field.number == 2 && field.type == WireType::kVarint) {
      step = static_cast<int64_t>(field.value);
    }
    if (field.number == 5 && field.type == WireType::kBytes) summary = field.bytes;
  }
  if (step < 0 || step > kLargestCount) return {};
  for (WireReader values(summary); !values.at_end();) {
    MEG_ASSIGN_OR_RETURN(const WireField value, values.next());
    if (value.number == 1 && value.type == WireType::kBytes) {
      MEG_RETURN_IF_ERROR(read_value(value.bytes, step, curves));
    }
  }
  return {};
}

Status read_event_file(const std::string& path, RunLog& log) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file,
                       io::MappedFile::open(path, io::MappedFile::Access::kSequential));
  CurveReader curves(log);
  std::string_view rest = file.text();
  while (!rest.empty()) {
    const size_t offset = file.size() - rest.size();
    const auto record = take_tf_record(rest, offset);
    if (!record.has_value()) return record.error().with_prefix(path);
    if (!record->has_value()) {
      log.notes.push_back(
          fmt::format("{}: its last record, from byte {} on, is cut and left out", path, offset));
      break;
    }
    const Status status = read_event(**record, curves);
    if (!status.ok()) return status.with_prefix(fmt::format("{}: record at {}", path, offset));
  }
  return {};
}

Result<std::vector<std::string>> event_files(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.find(kIsEventFile) != std::string::npos) files.push_back(entry->path().string());
  }
  if (error) return errno_error(error.value(), path);
  // Their names have the second in which they began, of ten digits.
  std::sort(files.begin(), files.end());
  if (!files.empty()) return files;
  return make_error(StatusCode::kNotFound,
                    "{}: expected event files, events.out.tfevents.*, found none", path);
}

}  // namespace

Result<RunLog> read_tensorboard_log(const std::string& path) {
  RunLog log;
  log.path = path;
  log.of_single_steps = true;
  MEG_ASSIGN_OR_RETURN(const std::vector<std::string> files, event_files(path));
  for (const std::string& file : files) MEG_RETURN_IF_ERROR(read_event_file(file, log));
  // Times alone, or a loss of something else, are no steps of a run.
  std::erase_if(log.steps, [](const LoggedSteps& steps) {
    return !steps.learning_rate.has_value() && !steps.lm_loss().has_value();
  });
  if (!log.steps.empty()) return log;
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected Megatron's curves, such as \"{}\" and \"lm loss\", found none",
                    path, figure_names::kLearningRate.tag);
}

}  // namespace meg::logging
