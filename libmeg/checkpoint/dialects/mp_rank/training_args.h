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

  /// A class or other name that Python looks up in a module: torch.float32.
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

/// The value of a field in args.
ArgValue arg_value(const megatron::FieldValue& field);

/// The same, but the words of a list become integers.
ArgValue whole_numbers_arg(const megatron::FieldValue& field);

/// window_size, Megatron's tuple, of a causal model whose attention spans this number of tokens.
ArgValue window_size_arg(int64_t attention_window);

/// Megatron's args: names and values in the order of its argparse.Namespace.
class TrainingArgs {
 public:
  using Entry = std::pair<std::string, ArgValue>;

  /// Replaces the value of this name, or appends one.
  void set(std::string_view name, ArgValue value);

  /// nullptr if there is no field of this name.
  const ArgValue* find(std::string_view name) const;

  /// The value as a configuration's field: a class as its dotted name, window_size and what is said
  /// of single layers as words; nullopt for other lists and enum members.
  std::optional<megatron::FieldValue> field(std::string_view name) const;

  std::span<const Entry> entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> places_;  ///< The index of each name in entries_.
};

/// The args of a file (an argparse.Namespace or a dict) whose values an ArgValue can hold (no
/// dicts, no objects). kResourceExhausted if they are out of proportion to the file's size.
Result<TrainingArgs> read_training_args(const TorchFile& file, PickleId args);

}  // namespace meg::checkpoint
