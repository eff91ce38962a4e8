#include "libmeg/chat/internal/globals.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "libmeg/chat/internal/python_functions.h"
#include "libmeg/text/printable.h"

namespace meg::chat {
namespace {

/// As in Jinja's sandbox.
constexpr int64_t kMaxRange = 100'000;

Result<Value> range(Arguments arguments) {
  const std::vector<Value>& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.keywords.empty()) {
    return Status(StatusCode::kInvalidArgument, "range: expected 1 to 3 integers");
  }
  std::vector<int64_t> numbers;
  for (const Value& one : given) {
    MEG_ASSIGN_OR_RETURN(const int64_t number, integer_or("range", one, 0));
    if (number > INT32_MAX || number < INT32_MIN)
      return Status(StatusCode::kOutOfRange, "range: expected integers of 32 bits");
    numbers.push_back(number);
  }
  if (numbers.size() == 1) numbers = {0, numbers[0]};
  if (numbers.size() == 2) numbers.push_back(1);
  const auto [begin, end, step] = std::tuple(numbers[0], numbers[1], numbers[2]);
  if (step == 0) return Status(StatusCode::kInvalidArgument, "range: the step is 0");
  const int64_t count =
      step > 0 ? (end - begin + step - 1) / step : (begin - end - step - 1) / -step;
  if (count > kMaxRange) {
    return make_error(StatusCode::kResourceExhausted,
                      "range: expected at most {} numbers, found {}", kMaxRange, count);
  }
  std::vector<Value> items;
  for (int64_t i = 0; i < count; ++i) items.emplace_back(begin + i * step);
  return Value::list(std::move(items));
}

/// dict(...) and namespace(...): the items of a dict, and keywords.
Result<Value> make_dict(Arguments arguments, bool is_object) {
  auto dict = std::make_shared<Dict>();
  dict->is_object = is_object;
  for (const Value& given : arguments.positional) {
    if (given.dict_content() == nullptr) return type_error("dict, namespace", "a dict", given);
    for (const auto& [key, value] : given.dict_content()->items) dict->set(key, value);
  }
  for (auto& [name, value] : arguments.keywords) dict->set(Value::text(name), std::move(value));
  return Value(std::move(dict));
}

Result<Value> raise_exception(Arguments arguments) {
  MEG_ASSIGN_OR_RETURN(const std::vector<Value> given,
                       bound("raise_exception", std::move(arguments), {"message"}, 1));
  return Status(StatusCode::kInvalidArgument, text::printable(given[0].str(), /*limit=*/200));
}

Result<Value> strftime_now(Arguments arguments) {
  MEG_ASSIGN_OR_RETURN(const std::vector<Value> given,
                       bound("strftime_now", std::move(arguments), {"format"}, 1));
  MEG_ASSIGN_OR_RETURN(std::string time, current_time(given[0].str()));
  return Value::text(std::move(time));
}

}  // namespace

const Value* find_global(std::string_view name) {
  static const std::vector<std::pair<std::string, Value>> globals = {
      {"range", Value::function("range", range)},
      {"dict", Value::function("dict", [](Arguments a) { return make_dict(std::move(a), false); })},
      {"namespace",
       Value::function("namespace", [](Arguments a) { return make_dict(std::move(a), true); })},
      {"raise_exception", Value::function("raise_exception", raise_exception)},
      {"strftime_now", Value::function("strftime_now", strftime_now)},
  };
  const auto found = std::ranges::find(globals, name, &std::pair<std::string, Value>::first);
  return found == globals.end() ? nullptr : &found->second;
}

Value loop_state(const std::vector<Value>& items, size_t i,
                 const std::shared_ptr<std::vector<Value>>& last_changed) {
  auto loop = std::make_shared<Dict>();
  loop->is_object = true;
  const auto size = std::ssize(items), index = static_cast<int64_t>(i);
  const auto add = [&](const char* name, Value value) {
    loop->items.emplace_back(Value::text(name), std::move(value));
  };
  add("index", Value(index + 1));
  add("index0", Value(index));
  add("revindex", Value(size - index));
  add("revindex0", Value(size - index - 1));
  add("first", Value(index == 0));
  add("last", Value(index + 1 == size));
  add("length", Value(size));
  add("depth", Value(int64_t{1}));
  add("depth0", Value(int64_t{0}));
  add("previtem", i > 0 ? items[i - 1] : Value::undefined("there is no previous item"));
  add("nextitem", i + 1 < items.size() ? items[i + 1] : Value::undefined("there is no next item"));
  add("cycle", Value::function("cycle", [i](Arguments arguments) -> Result<Value> {
        if (arguments.positional.empty()) {
          return Status(StatusCode::kInvalidArgument, "no items for cycling given");
        }
        return arguments.positional[i % arguments.positional.size()];
      }));
  add("changed", Value::function("changed", [last_changed](Arguments arguments) -> Result<Value> {
        const bool has_changed = *last_changed != arguments.positional || last_changed->empty();
        *last_changed = std::move(arguments.positional);
        return Value(has_changed);
      }));
  return Value(std::move(loop));
}

}  // namespace meg::chat
