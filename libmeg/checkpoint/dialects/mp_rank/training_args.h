#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/megatron/field_value.h"

namespace meg::checkpoint {

/// The value of one of Megatron's args.
struct ArgValue {
  using List = std::vector<ArgValue>;

  /// A class or another name of a module that Python looks up: torch.float32.
  struct Global {
    std::string module, name;

    bool operator==(const Global&) const = default;
  };

  /// A member of an enum by its value: megatron.core.enums.ModelType(1).
  struct EnumMember {
    Global type;
    std::variant<int64_t, std::string> value;

    bool operator==(const EnumMember&) const = default;
  };

  std::variant<std::monostate, bool, int64_t, double, std::string, List, Global, EnumMember> value;

  bool operator==(const ArgValue& other) const { return value == other.value; }
};

/// A field as args keep it.
ArgValue arg_value(const megatron::FieldValue& field);

/// Megatron's args: names and values in the order of its argparse.Namespace.
class TrainingArgs {
 public:
  using Entry = std::pair<std::string, ArgValue>;

  /// In place of an older value of this name, or at the end.
  void set(std::string_view name, ArgValue value);

  /// nullptr where there is none of this name.
  const ArgValue* find(std::string_view name) const;

  /// As a field of a configuration: a list or an enum's member is none, a class its dotted name.
  std::optional<megatron::FieldValue> field(std::string_view name) const;

  std::span<const Entry> entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> places_;  ///< Of each name in entries_.
};

/// The args of a file (an argparse.Namespace or a dict) as far as ArgValue holds their values (no
/// dicts, no objects). kResourceExhausted where they grow beyond what a file of its size has.
Result<TrainingArgs> read_training_args(const TorchFile& file, PickleId args);

}  // namespace meg::checkpoint
