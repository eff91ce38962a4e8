#include "libmeg/checkpoint/training/internal/value_reader.h"

#include "libmeg/checkpoint/dialects/mp_rank/parameter_step.h"

// Errors are kept, not returned: a reader of ten fields asks for status() once. Only the first one
// is kept, since later ones often follow from it.

namespace meg::checkpoint {

std::optional<PickleId> ValueReader::required(std::string_view key) {
  const std::optional<PickleId> id = graph_.find(dict_, key);
  if (!id.has_value() && status_.ok()) {
    status_ = make_error(StatusCode::kCorruption, "{}: {}: expected {}, found no such key",
                         file_.path(), where_, key);
  }
  return id;
}

void ValueReader::fail(std::string_view key, std::string_view expected, PickleId found) {
  if (!status_.ok()) return;
  status_ = make_error(StatusCode::kCorruption, "{}: {}: {}: expected {}, found {}", file_.path(),
                       where_, key, expected, graph_.describe(found, 60));
}

double ValueReader::real(std::string_view key) {
  const std::optional<PickleId> id = required(key);
  if (!id.has_value()) return 0.0;
  const std::optional<double> found = graph_.as_number(*id);
  if (!found.has_value()) fail(key, "a number", *id);
  return found.value_or(0.0);
}

int64_t ValueReader::integer(std::string_view key) {
  const std::optional<PickleId> id = required(key);
  if (!id.has_value()) return 0;
  const std::optional<int64_t> found = graph_.as_int(*id);
  if (!found.has_value()) fail(key, "an integer", *id);
  return found.value_or(0);
}

std::array<double, 2> ValueReader::pair(std::string_view key) {
  const std::optional<PickleId> id = required(key);
  if (!id.has_value()) return {};
  const std::vector<PickleId>& parts = graph_.node(*id).children;
  const auto part = [&](size_t i) {
    return parts.size() == 2 ? graph_.as_number(parts[i]) : std::nullopt;
  };
  if (!part(0).has_value() || !part(1).has_value()) {
    fail(key, "two numbers", *id);
    return {};
  }
  return {*part(0), *part(1)};
}

float ValueReader::scale(std::string_view key) {
  const std::optional<PickleId> id = required(key);
  if (!id.has_value()) return 0.0F;
  const TensorView* view = file_.tensor(*id);
  // Revisions differ: a tensor of Megatron's, or a plain float.
  if (view == nullptr) return static_cast<float>(real(key));
  const Result<std::optional<float>> read = read_one_float(file_, *view);
  if (!read.has_value() && status_.ok()) status_ = read.error();
  if (!read.has_value()) return 0.0F;
  if (!read->has_value()) fail(key, "one float32", *id);
  return read->value_or(0.0F);
}

bool ValueReader::flag_or(std::string_view key, bool otherwise) {
  // A missing key is allowed, a wrong type is not: it would be taken for the default without a
  // word.
  const std::optional<PickleId> id = graph_.find(dict_, key);
  if (!id.has_value()) return otherwise;
  const std::optional<bool> found = graph_.as_bool(*id);
  if (!found.has_value()) fail(key, "True or False", *id);
  return found.value_or(otherwise);
}

}  // namespace meg::checkpoint
