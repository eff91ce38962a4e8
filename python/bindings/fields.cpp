#include "python/bindings/fields.h"

#include <nanobind/stl/string.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/bindings/errors.h"

namespace meg::python {

namespace nb = nanobind;

namespace {

megatron::FieldValue field_of(const std::string& name, nb::handle value) {
  if (value.is_none()) return std::monostate();
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) {
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow == 0) return number;
    refuse("{}: expected an integer of 64 bits, found {}", name, nb::str(value).c_str());
  }
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    std::vector<std::string> words;
    for (const nb::handle word : nb::borrow(value)) {
      if (!nb::isinstance<nb::str>(word)) {
        throw nb::type_error((name + ": expected a list of str").c_str());
      }
      words.push_back(nb::cast<std::string>(word));
    }
    return words;
  }
  if (nb::hasattr(value, "__fspath__")) {
    return nb::cast<std::string>(nb::module_::import_("os").attr("fsdecode")(value));
  }
  throw nb::type_error(
      fmt::format("{}: expected None, bool, int, float, str or list of str, found {}", name,
                  nb::type_name(value.type()).c_str())
          .c_str());
}

}  // namespace

megatron::FieldLookup fields_of(const nb::dict& values) {
  auto fields = std::make_shared<std::map<std::string, megatron::FieldValue, std::less<>>>();
  for (const auto& [key, value] : values) {
    const auto name = nb::cast<std::string>(key);
    (*fields)[name] = field_of(name, value);
  }
  return [fields](std::string_view name) -> std::optional<megatron::FieldValue> {
    const auto found = fields->find(name);
    return found == fields->end() ? std::nullopt : std::optional(found->second);
  };
}

}  // namespace meg::python
