#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/megatron/argument_table.h"
#include "libmeg/megatron/field_value.h"
#include "libmeg/megatron/python_value.h"

namespace meg::megatron {

/// The namespace of a parsed command line, as Megatron's `args`: a value for every field (dest) of
/// the argument table, and which flags of the command line gave them.
class ArgumentValues {
 public:
  /// Every field of `rows` at its default.
  static ArgumentValues defaults(std::span<const ArgumentRow> rows);

  /// Adds missing fields; if several rows have the same field, the first determines its default, as
  /// in argparse. A default that is not a Python literal is used as text.
  void add_defaults(std::span<const ArgumentRow> rows);

  /// Nothing where there is no such field.
  std::optional<FieldValue> field(std::string_view dest) const;

  /// field() for readers of configurations; this must outlive it.
  FieldLookup lookup() const;

  /// The same for fields that flags gave, without defaults.
  FieldLookup given_lookup() const;

  /// Whether one of these fields has a value: neither None, nor False, nor an empty list.
  bool has_any(std::initializer_list<std::string_view> dests) const;

  /// Whether a flag of the command line (or of its --config file) gave the field.
  bool given(std::string_view dest) const;

  /// Sets a known or new field, such as one that follows from others. Does not change given().
  void set(std::string_view dest, FieldValue value);

  /// Sets the field of a flag of the command line, and makes given() true for it.
  void give(const ArgumentRow& row, FieldValue value);

  /// The flags that gave fields, each once, in the order of the command line. As
  /// ArgumentRow::flag, whatever name or prefix was typed.
  const std::vector<std::string>& given_flags() const { return given_flags_; }

 private:
  struct Entry {
    FieldValue value;
    bool given = false;
  };

  std::map<std::string, Entry, std::less<>> fields_;
  std::vector<std::string> given_flags_;
};

}  // namespace meg::megatron
