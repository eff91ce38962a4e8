#include "libmeg/checkpoint/dialects/huggingface/internal/rotary_scaling.h"

#include <fmt/format.h>

#include <cmath>

#include "libmeg/checkpoint/container/json/internal/json_string.h"
#include "libmeg/checkpoint/container/json/json_object.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

using simdjson::dom::element;

/// What Llama 3.1's scaling has in Megatron, where its factor alone can be chosen.
constexpr std::pair<std::string_view, double> kLlama3Numbers[] = {
    {"low_freq_factor", 1}, {"high_freq_factor", 4}, {"original_max_position_embeddings", 8192}};

bool is_context(std::string_view key) { return key == kLlama3Numbers[2].first; }

/// Reads one object of rotary parameters, in either spelling.
class ScalingReader {
 public:
  /// plain: the settings without this object.
  ScalingReader(const element& value, const RotaryKeys& keys, RotaryScaling plain,
                int64_t positions, std::string where)
      : value_(value),
        keys_(keys),
        plain_(plain),
        positions_(positions),
        where_(std::move(where)) {}

  Result<RotaryScaling> read() {
    if (value_.get(object_) != simdjson::SUCCESS) return wrong("", "an object", value_);
    MEG_RETURN_IF_ERROR(
        for_each_member(object_, where_, [this](std::string_view key, const element& value) {
          simdjson::dom::object nested;
          // Parameters by the layers' types are of models with several kinds of attention; no key
          // has null for a value.
          const bool is_known = value.get(nested) != simdjson::SUCCESS && !value.is_null();
          return is_known ? Status() : wrong(text::printable(key, 200), "a value", value);
        }));
    MEG_ASSIGN_OR_RETURN(const std::string type, read_type());
    RotaryScaling scaling;
    MEG_ASSIGN_OR_RETURN(scaling.base, number("rope_theta", plain_.base));
    MEG_ASSIGN_OR_RETURN(scaling.share, number("partial_rotary_factor", plain_.share));
    const bool is_whole = keys_.share_key.empty();
    if (is_whole ? scaling.share != 1 : scaling.share > 1) {
      return make_error(StatusCode::kUnsupported,
                        "{}: partial_rotary_factor: expected {}, found {}", where_,
                        is_whole ? "1" : "up to 1", scaling.share);
    }
    if (type == "default") return scaling;
    MEG_ASSIGN_OR_RETURN(const double factor, number("factor", std::nullopt));
    if (type == "linear") return with_interpolation(scaling, factor);
    return with_llama3(scaling, factor);
  }

 private:
  Status wrong(std::string_view key, std::string_view expected, const element& found) const {
    return make_error(StatusCode::kUnsupported, "{}{}{}: expected {}, found {}", where_,
                      key.empty() ? "" : ": ", key, expected, json_value_text(found));
  }

  std::optional<element> find(std::string_view key) const {
    element found;
    if (object_[key].get(found) != simdjson::SUCCESS || found.is_null()) return std::nullopt;
    return found;
  }

  Result<std::string> read_type() const {
    const std::optional<element> type = find("rope_type") ? find("rope_type") : find("type");
    if (!type.has_value()) return std::string("default");
    std::string_view name;
    if (type->get(name) == simdjson::SUCCESS &&
        (name == "default" || name == "linear" || name == "llama3")) {
      return std::string(name);
    }
    return wrong("rope_type", "default, linear or llama3", *type);
  }

  /// A number above 0; `otherwise` if there is none.
  Result<double> number(std::string_view key, std::optional<double> otherwise) const {
    const std::optional<element> found = find(key);
    if (!found.has_value() && otherwise.has_value()) return *otherwise;
    if (!found.has_value()) {
      return make_error(StatusCode::kCorruption, "{}: expected {}, found none", where_, key);
    }
    double value = 0;
    if (found->get(value) != simdjson::SUCCESS || !(value > 0)) {
      return wrong(key, "a number above 0", *found);
    }
    return value;
  }

  Status check(std::string_view key, double expected, std::optional<double> otherwise) const {
    MEG_ASSIGN_OR_RETURN(const double found, number(key, otherwise));
    if (found == expected) return Status();
    return make_error(StatusCode::kUnsupported, "{}: {}: expected {}, found {}", where_, key,
                      expected, found);
  }

  /// Megatron's factor is a whole number.
  Result<RotaryScaling> with_interpolation(RotaryScaling scaling, double factor) const {
    if (std::floor(factor) != factor) {
      return make_error(StatusCode::kUnsupported, "{}: factor: expected an integer, found {}",
                        where_, factor);
    }
    scaling.interpolation_factor = factor;
    return scaling;
  }

  Result<RotaryScaling> with_llama3(RotaryScaling scaling, double factor) const {
    for (const auto& [key, expected] : kLlama3Numbers) {
      if (is_context(key) && keys_.context.has_value()) {
        double found = 0;
        if (keys_.context->get(found) == simdjson::SUCCESS && found == expected) continue;
        return wrong(key, fmt::format("{} beside it", expected), *keys_.context);
      }
      const std::optional<double> positions = static_cast<double>(positions_);
      MEG_RETURN_IF_ERROR(check(key, expected, is_context(key) ? positions : std::nullopt));
    }
    scaling.llama3_factor = factor;
    return scaling;
  }

  element value_;
  const RotaryKeys& keys_;
  simdjson::dom::object object_;
  RotaryScaling plain_;
  int64_t positions_;
  std::string where_;
};

}  // namespace

void RotaryScaling::add_fields(
    std::vector<std::pair<std::string, megatron::FieldValue>>* fields) const {
  // An integer where it is one, as Megatron's --rotary-base has it.
  const auto number = [](double value) {
    const bool is_whole = std::floor(value) == value && value < 1e15;
    return is_whole ? megatron::FieldValue(static_cast<int64_t>(value))
                    : megatron::FieldValue(value);
  };
  fields->emplace_back("rotary_base", number(base));
  if (share != 1) fields->emplace_back("rotary_percent", share);
  if (local_base.has_value()) fields->emplace_back("rotary_base_local", number(*local_base));
  fields->emplace_back("use_rope_scaling", llama3_factor.has_value());
  if (llama3_factor.has_value()) fields->emplace_back("rope_scaling_factor", *llama3_factor);
  if (interpolation_factor != 1) {
    fields->emplace_back("rotary_seq_len_interpolation_factor",
                         static_cast<int64_t>(interpolation_factor));
  }
}

Result<RotaryScaling> RotaryScaling::from_fields(const megatron::FieldLookup& args) {
  megatron::FieldReader fields(args);
  RotaryScaling scaling;
  fields.take("rotary_base", scaling.base);
  fields.take("rotary_percent", scaling.share);
  scaling.local_base = fields.number("rotary_base_local");
  fields.take("rotary_seq_len_interpolation_factor", scaling.interpolation_factor);
  if (fields.flag("use_rope_scaling", false)) {
    scaling.llama3_factor = fields.number("rope_scaling_factor").value_or(8);
  }
  MEG_RETURN_IF_ERROR(fields.status());
  if (scaling.interpolation_factor == 1 || !scaling.llama3_factor.has_value()) return scaling;
  return make_error(
      StatusCode::kUnsupported,
      "rotary_seq_len_interpolation_factor: expected 1 with use_rope_scaling, found {}",
      scaling.interpolation_factor);
}

std::map<std::string, std::string> RotaryScaling::parameters() const {
  std::map<std::string, std::string> json = {{"rope_theta", json_real(base)},
                                             {"rope_type", json_string("default")}};
  if (share != 1) json["partial_rotary_factor"] = json_real(share);
  if (interpolation_factor != 1) {
    json["rope_type"] = json_string("linear");
    json["factor"] = json_real(interpolation_factor);
  }
  if (!llama3_factor.has_value()) return json;
  json["rope_type"] = json_string("llama3");
  json["factor"] = json_real(*llama3_factor);
  for (const auto& [key, value] : kLlama3Numbers) {
    json[std::string(key)] = is_context(key) ? fmt::format("{}", value) : json_real(value);
  }
  return json;
}

Result<RotaryScaling> read_rotary_scaling(const RotaryKeys& keys, int64_t max_position_embeddings,
                                          const std::string& name) {
  const auto is_there = [](const std::optional<element>& value) {
    return value.has_value() && !value->is_null();
  };
  const auto take = [&](std::string_view key, const std::optional<element>& value, double* into) {
    if (!value.has_value() || (value->get(*into) == simdjson::SUCCESS && *into > 0)) {
      return Status();
    }
    return make_error(StatusCode::kCorruption, "{}: {}: expected a number above 0, found {}", name,
                      key, json_value_text(*value));
  };
  RotaryScaling plain, local;
  plain.base = keys.default_base;
  plain.share = keys.default_share;
  local.base = keys.default_local_base;
  MEG_RETURN_IF_ERROR(take(keys.base_key, keys.base, &plain.base));
  MEG_RETURN_IF_ERROR(take(keys.share_key, keys.share, &plain.share));
  MEG_RETURN_IF_ERROR(take("rope_local_base_freq", keys.local_base, &local.base));
  if (plain.share > 1) {
    return make_error(StatusCode::kUnsupported, "{}: {}: expected up to 1, found {}", name,
                      keys.share_key, plain.share);
  }
  // Parameters for each type of layers.
  std::optional<element> parameters = keys.parameters, sliding;
  std::string key_of_parameters = "rope_parameters";
  if (keys.is_layered && is_there(parameters)) {
    simdjson::dom::object types;
    if (parameters->get(types) != simdjson::SUCCESS ||
        types["rope_type"].error() == simdjson::SUCCESS ||
        types["rope_theta"].error() == simdjson::SUCCESS) {
      return make_error(StatusCode::kUnsupported,
                        "{}: rope_parameters: expected an object for each type of layers, found {}",
                        name, json_value_text(*parameters));
    }
    element found;
    if (types["sliding_attention"].get(found) == simdjson::SUCCESS) sliding = found;
    parameters.reset();
    if (types["full_attention"].get(found) == simdjson::SUCCESS) parameters = found;
    key_of_parameters += ": full_attention";
  }
  const auto read = [&](const element& value, const RotaryScaling& without, std::string_view key) {
    return ScalingReader(value, keys, without, max_position_embeddings,
                         fmt::format("{}: {}", name, key))
        .read();
  };
  RotaryScaling found = plain;
  // rope_scaling is the older spelling, rope_parameters that of transformers 5; a file may have
  // both, for readers of either, and they must then say the same.
  bool has_scaling = false;
  for (const auto& [key, value] :
       {std::pair<std::string_view, std::optional<element>>("rope_scaling", keys.scaling),
        {key_of_parameters, parameters}}) {
    if (!is_there(value)) continue;
    MEG_ASSIGN_OR_RETURN(const RotaryScaling scaling, read(*value, plain, key));
    const bool differs = has_scaling ? scaling != found
                                     : (is_there(keys.base) && scaling.base != plain.base) ||
                                           (is_there(keys.share) && scaling.share != plain.share);
    if (differs) {
      return make_error(StatusCode::kCorruption,
                        "{}: {}: expected the same as in {}, found something else", name, key,
                        has_scaling ? "rope_scaling" : keys.base_key);
    }
    found = scaling;
    has_scaling = true;
  }
  if (!keys.is_layered) return found;
  if (is_there(sliding)) {
    MEG_ASSIGN_OR_RETURN(local, read(*sliding, local, "rope_parameters: sliding_attention"));
  }
  if (local == found) return found;
  if (!local.is_plain()) {
    return make_error(StatusCode::kUnsupported,
                      "{}: rope_parameters: sliding_attention: expected rope_type default, or the "
                      "same as in full_attention, found another",
                      name);
  }
  found.local_base = local.base;
  return found;
}

}  // namespace meg::checkpoint
