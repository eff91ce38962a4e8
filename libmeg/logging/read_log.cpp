#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "libmeg/io/mapped_file.h"
#include "libmeg/logging/figure_names.h"
#include "libmeg/logging/run_log.h"

// A line about steps is " iteration N/ M |" followed by fields "label: number |". What comes before
// it differs between revisions and launchers; the fields do, too: those in scientific notation that
// are not known by their label are losses, as a run may have any.

namespace meg::logging {
namespace {

/// Longer lines are none of a trainer's.
constexpr size_t kLongestLine = size_t{1} << 16;
constexpr size_t kMostNotes = 100;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_count = value >= 0 && value <= kLargestCount;
  if (error != std::errc() || end != text.data() + text.size() || !is_count) return std::nullopt;
  return value;
}

/// A number with half a unit of its last digit.
std::optional<LoggedFigure> parse_figure(std::string_view text) {
  LoggedFigure figure;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, figure.value);
  if (text.empty() || error != std::errc() || end != last) return std::nullopt;
  const size_t exponent_at = std::min(text.find_first_of("eE"), text.size());
  const size_t point = std::min(text.find('.'), exponent_at);
  const auto digits = static_cast<int>(exponent_at - std::min(point + 1, exponent_at));
  int exponent = 0;
  if (exponent_at < text.size()) {
    const std::string_view power = text.substr(exponent_at + 1);
    const size_t sign = power.starts_with('+') ? 1 : 0;
    std::from_chars(power.data() + sign, power.data() + power.size(), exponent);
  }
  figure.rounding = std::isfinite(figure.value) ? 0.5 * std::pow(10.0, exponent - digits) : 0;
  return figure;
}

/// What follows `words` in a line; nullopt if it has no such words.
std::optional<std::string_view> after(std::string_view line, std::string_view words) {
  const size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  return line.substr(at + words.size());
}

/// Takes the text before the next `end`, trimmed; nullopt if there is none.
std::optional<std::string_view> take_until(std::string_view& rest, char end) {
  const size_t at = rest.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = trimmed(rest.substr(0, at));
  rest.remove_prefix(at + 1);
  return taken;
}

bool take_count(std::string_view text, std::optional<int64_t>& into) {
  into = parse_count(text);
  return into.has_value();
}

/// Puts one field of a line where it belongs; false if its value is not what its label says.
bool take_field(std::string_view label, std::string_view text, LoggedSteps& steps) {
  namespace names = figure_names;
  const auto is = [label](const FigureName& name) { return label == name.label; };
  if (is(names::kConsumedSamples)) return take_count(text, steps.consumed_samples);
  if (is(names::kBatchSize)) return take_count(text, steps.batch_size);
  if (is(names::kSkippedIterations)) return take_count(text, steps.skipped_iterations);
  if (is(names::kNanIterations)) return take_count(text, steps.nan_iterations);
  const std::optional<LoggedFigure> figure = parse_figure(text);
  if (!figure.has_value()) return false;
  if (is(names::kElapsedTime)) {
    steps.milliseconds = figure;
  } else if (is(names::kLearningRate)) {
    steps.learning_rate = figure;
  } else if (is(names::kLossScale)) {
    steps.loss_scale = figure;
  } else if (is(names::kGradNorm)) {
    steps.grad_norm = figure;
  } else if (is(names::kParamsNorm)) {
    steps.params_norm = figure;
  } else if (text.find('E') != std::string_view::npos) {
    // Losses alone are written like this; counts, throughput and power are not.
    steps.losses.emplace_back(label, *figure);
  }
  return true;
}

/// Whether a text ends with a time such as "[2025-04-13 23:41:20.123456]".
bool ends_with_microseconds(std::string_view text) {
  constexpr std::string_view kShape = ".dddddd]";
  if (text.size() < kShape.size()) return false;
  text.remove_prefix(text.size() - kShape.size());
  return std::ranges::equal(text, kShape, [](char found, char wanted) {
    return wanted == 'd' ? found >= '0' && found <= '9' : found == wanted;
  });
}

/// Since core_v0.17 a line whose steps were all skipped has losses of zero, which are none.
void drop_losses_of_skipped_steps(LoggedSteps& steps) {
  if (steps.skipped_iterations.value_or(0) == 0) return;
  std::erase_if(steps.losses, [](const auto& loss) { return loss.second.value == 0; });
}

enum class Read : uint8_t { kWhole, kCut, kOther };

Read read_steps(std::string_view line, LoggedSteps& steps) {
  constexpr std::string_view kIteration = " iteration ";
  const size_t at = line.find(kIteration);
  if (at == std::string_view::npos) return Read::kOther;
  steps.has_microseconds = ends_with_microseconds(line.substr(0, at));
  std::string_view rest = line.substr(at + kIteration.size());
  // "iteration 10 to FOLDER" and the like are lines about something else.
  const auto iteration = take_until(rest, '/');
  if (!iteration.has_value() || !parse_count(*iteration).has_value()) return Read::kOther;
  steps.iteration = *parse_count(*iteration);
  const auto iterations = take_until(rest, '|');
  if (!iterations.has_value() || !take_count(*iterations, steps.train_iters)) return Read::kCut;
  while (!trimmed(rest).empty()) {
    const std::optional<std::string_view> field = take_until(rest, '|');
    if (!field.has_value()) return Read::kCut;
    const size_t colon = field->rfind(": ");
    if (colon == std::string_view::npos ||
        !take_field(trimmed(field->substr(0, colon)), trimmed(field->substr(colon + 1)), steps)) {
      return Read::kCut;
    }
  }
  drop_losses_of_skipped_steps(steps);
  // Every revision ends its lines with it.
  return steps.nan_iterations.has_value() ? Read::kWhole : Read::kCut;
}

Read read_validation(std::string_view line, LoggedValidation& validation) {
  std::optional<std::string_view> found = after(line, "validation loss at iteration ");
  if (!found.has_value()) return Read::kOther;
  std::string_view rest = *found;
  const auto place = take_until(rest, '|');
  if (!place.has_value()) return Read::kCut;
  const size_t digits = std::min(place->find(' '), place->size());
  const auto iteration = parse_count(place->substr(0, digits));
  if (!iteration.has_value()) return Read::kCut;
  validation.iteration = *iteration;
  for (const std::string_view set : {"validation", "test"}) {
    if (place->find(fmt::format("on {} set", set)) != std::string_view::npos) validation.set = set;
  }
  while (!trimmed(rest).empty()) {
    const std::optional<std::string_view> field = take_until(rest, '|');
    const size_t colon = field.has_value() ? field->rfind(": ") : std::string_view::npos;
    if (colon == std::string_view::npos) return Read::kCut;
    const auto figure = parse_figure(trimmed(field->substr(colon + 1)));
    if (!figure.has_value()) return Read::kCut;
    std::string_view name = field->substr(0, colon);
    // The other is its perplexity.
    if (!name.ends_with(" value")) continue;
    name.remove_suffix(std::string_view(" value").size());
    validation.losses.emplace_back(name, *figure);
  }
  return Read::kWhole;
}

bool read_load(std::string_view line, LoggedLoad& load) {
  const auto found = after(line, "successfully loaded checkpoint from ");
  if (!found.has_value()) return false;
  const size_t at = found->rfind(" at iteration ");
  if (at == std::string_view::npos) return false;
  const auto iteration =
      parse_count(trimmed(found->substr(at + std::string_view(" at iteration ").size())));
  if (!iteration.has_value()) return false;
  load.iteration = *iteration;
  const std::string_view folder = found->substr(0, at);
  load.folder = trimmed(folder.substr(0, folder.find(" [ t ")));
  return true;
}

void read_line(std::string_view line, int64_t number, RunLog& log) {
  LoggedSteps steps;
  steps.line = number;
  LoggedValidation validation{.line = number, .iteration = 0, .set = {}, .losses = {}};
  LoggedLoad load{.line = number, .iteration = 0, .folder = {}};
  const Read of_steps = read_steps(line, steps);
  const Read of_validation =
      of_steps == Read::kOther ? read_validation(line, validation) : Read::kOther;
  if (of_steps == Read::kWhole) {
    log.steps.push_back(std::move(steps));
  } else if (of_validation == Read::kWhole) {
    log.validations.push_back(std::move(validation));
  } else if (of_steps == Read::kCut || of_validation == Read::kCut) {
    if (log.notes.size() >= kMostNotes) return;
    log.notes.push_back(
        fmt::format("{}: line {}: cut or mixed with another, left out", log.path, number));
  } else if (read_load(line, load)) {
    log.loads.push_back(std::move(load));
  }
}

}  // namespace

std::optional<LoggedFigure> LoggedSteps::lm_loss() const {
  for (const auto& [name, figure] : losses) {
    if (name == "lm loss") return figure;
  }
  return std::nullopt;
}

Result<RunLog> read_log(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file,
                       io::MappedFile::open(path, io::MappedFile::Access::kSequential));
  RunLog log;
  log.path = path;
  std::string_view rest = file.text();
  for (int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    // A bar redrawn over and over makes one line of the file with a trainer's at its end.
    const size_t redrawn = trimmed(line).rfind('\r');
    const std::string_view shown =
        redrawn == std::string_view::npos ? line : trimmed(line).substr(redrawn + 1);
    if (shown.size() <= kLongestLine) read_line(fmt::format(" {}", shown), number, log);
  }
  if (!log.steps.empty()) return log;
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected lines such as \" iteration       10/     100 | consumed samples: "
                    "...\", found none{}",
                    path, log.notes.empty() ? "" : " that is whole");
}

}  // namespace meg::logging
