#include "libmeg/schedule/internal/scheduler_state.h"

#include <cmath>
#include <initializer_list>
#include <optional>

#include "libmeg/text/json/python_float.h"
#include "libmeg/text/printable.h"

namespace meg::schedule {
namespace {

megatron::FieldValue field(const SampleCount& count) {
  return std::visit([](auto value) { return megatron::FieldValue(value); }, count);
}

megatron::FieldValue field(std::string_view text) { return std::string(text); }

std::optional<double> number(const megatron::FieldValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

/// Writes the value as Python prints it, since it stands in lines that Megatron prints.
std::string value_text(const megatron::FieldValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) {
    return std::isfinite(*real) ? text::python_float_text(*real) : fmt::format("{}", *real);
  }
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "True" : "False";
  return "None";
}

/// Writes the value for errors: a checkpoint's text may hold anything.
std::string found_text(const megatron::FieldValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? text::printable(*text) : value_text(value);
}

bool same(const megatron::FieldValue& left, const megatron::FieldValue& right) {
  const std::optional<double> number_left = number(left);
  const std::optional<double> number_right = number(right);
  if (number_left && number_right) return *number_left == *number_right;
  return left == right;
}

/// Reads a checkpoint's fields one after the other; the first error is kept.
class StateReader {
 public:
  StateReader(const megatron::FieldLookup& state, const OptimizerParamScheduler::Options& given,
              std::vector<std::string>* lines)
      : state_(state), given_(given), lines_(*lines) {}

  bool has(std::string_view name) const { return state_(name).has_value(); }

  /// keys: the names it had, in the order in which Megatron looks for them. title: Megatron's word.
  void take(std::initializer_list<std::string_view> keys, std::string_view title, double* into) {
    const megatron::FieldValue value = choose(keys, title, megatron::FieldValue(*into), kNumber);
    if (ok()) *into = *number(value);
  }

  void take(std::initializer_list<std::string_view> keys, std::string_view title,
            SampleCount* into) {
    const megatron::FieldValue value = choose(keys, title, field(*into), kNumber);
    if (!ok()) return;
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      *into = *integer;
    } else {
      *into = std::get<double>(value);
    }
  }

  template <class Style, class Parse>
  void take_style(std::initializer_list<std::string_view> keys, std::string_view title, Style* into,
                  const Parse& parse) {
    const megatron::FieldValue value = choose(keys, title, field(style_text(*into)), kText);
    if (!ok()) return;
    Result<Style> style = parse(std::get<std::string>(value));
    if (!style.has_value()) {
      fail(StatusCode::kCorruption, fmt::format("{}: {}", title, style.error().message()));
      return;
    }
    *into = *style;
  }

  /// Reads a number of steps, which the flags never decide.
  void take_steps(std::initializer_list<std::string_view> keys, int64_t* into) {
    const std::optional<megatron::FieldValue> value = find(keys);
    if (!value) return;
    const auto* steps = std::get_if<int64_t>(&*value);
    // The schedule computes with float64, which counts no further without gaps.
    if (steps == nullptr || *steps < 0 || *steps > (int64_t{1} << 53)) {
      fail(StatusCode::kCorruption, fmt::format("{}: expected 0 to 2^53 samples, found {}",
                                                *(keys.end() - 1), found_text(*value)));
      return;
    }
    *into = *steps;
  }

  const Status& status() const { return status_; }

 private:
  enum Type { kNumber, kText };

  bool ok() const { return status_.ok(); }

  void fail(StatusCode code, const std::string& message) {
    if (ok()) status_ = Status(code, "opt_param_scheduler: " + message);
  }

  std::optional<megatron::FieldValue> find(std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) {
      if (std::optional<megatron::FieldValue> value = state_(key)) return value;
    }
    fail(StatusCode::kCorruption,
         fmt::format("expected a field {}, found none", *(keys.end() - 1)));
    return std::nullopt;
  }

  megatron::FieldValue choose(std::initializer_list<std::string_view> keys, std::string_view title,
                              const megatron::FieldValue& given, Type type) {
    if (!ok()) return given;
    const std::optional<megatron::FieldValue> value = find(keys);
    if (!value) return given;
    // What the checkpoint has does not matter here, not even its type.
    if (given_.override_opt_param_scheduler) {
      lines_.push_back(fmt::format(" > overriding {} value to {}", title, value_text(given)));
      return given;
    }
    if (type == kText ? !std::holds_alternative<std::string>(*value) : !number(*value)) {
      fail(StatusCode::kCorruption,
           fmt::format("{}: expected {}, found {}", title, type == kText ? "a text" : "a number",
                       found_text(*value)));
      return given;
    }
    if (!given_.use_checkpoint_opt_param_scheduler && !same(given, *value)) {
      fail(StatusCode::kInvalidArgument,
           fmt::format("{}: expected the checkpoint's {}, found {} in the flags "
                       "(`use_checkpoint_opt_param_scheduler` uses the checkpoint's, "
                       "`override_opt_param_scheduler` the flags')",
                       title, found_text(*value), value_text(given)));
      return given;
    }
    lines_.push_back(fmt::format(" > using checkpoint value {} for {}", value_text(*value), title));
    return *value;
  }

  const megatron::FieldLookup& state_;
  const OptimizerParamScheduler::Options& given_;
  std::vector<std::string>& lines_;
  Status status_;
};

}  // namespace

std::vector<std::pair<std::string, megatron::FieldValue>> scheduler_state(
    const OptimizerParamScheduler::Options& options, int64_t num_steps) {
  return {
      {"max_lr", options.max_lr},
      {"lr_warmup_steps", field(options.lr_warmup_steps)},
      {"num_steps", num_steps},
      {"lr_decay_style", field(style_text(options.lr_decay_style))},
      {"lr_decay_steps", field(options.lr_decay_steps)},
      {"min_lr", options.min_lr},
      {"start_wd", options.start_wd},
      {"end_wd", options.end_wd},
      {"wd_incr_style", field(style_text(options.wd_incr_style))},
      {"wd_incr_steps", field(options.wd_incr_steps)},
  };
}

Result<LoadedSchedulerState> load_scheduler_state(const megatron::FieldLookup& state,
                                                  const OptimizerParamScheduler::Options& given) {
  LoadedSchedulerState loaded;
  loaded.options = given;
  OptimizerParamScheduler::Options& into = loaded.options;
  StateReader reader(state, given, &loaded.lines);
  // Read in Megatron's order, which is the order of the lines it prints. Of several names of a
  // field the oldest is looked for first, as there.
  reader.take({"start_lr", "max_lr"}, "learning rate", &into.max_lr);
  reader.take({"min_lr"}, "minimum learning rate", &into.min_lr);
  reader.take({"warmup_iter", "warmup_steps", "lr_warmup_steps"}, "warmup iterations",
              &into.lr_warmup_steps);
  reader.take({"end_iter", "decay_steps", "lr_decay_steps"}, "total number of iterations",
              &into.lr_decay_steps);
  reader.take_style({"decay_style", "lr_decay_style"}, "learning rate decay style",
                    &into.lr_decay_style, parse_lr_decay_style);
  reader.take_steps({"num_iters", "num_steps"}, &loaded.num_steps);
  // Revisions before weight decay had a schedule wrote nothing of it.
  if (reader.has("start_wd")) {
    reader.take({"start_wd"}, "start weight decay", &into.start_wd);
    reader.take({"end_wd"}, "end weight decay", &into.end_wd);
    reader.take({"wd_incr_steps"}, "total number of weight decay iterations", &into.wd_incr_steps);
    reader.take_style({"wd_incr_style"}, "weight decay incr style", &into.wd_incr_style,
                      parse_weight_decay_incr_style);
  }
  MEG_RETURN_IF_ERROR(reader.status());
  return loaded;
}

}  // namespace meg::schedule
