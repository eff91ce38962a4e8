#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"

namespace meg::checkpoint {

/// Edits the fields of an args dict in the graph of a file to be written.
class ArgsEditor {
 public:
  ArgsEditor(PickleId dict, PickleGraph* graph) : dict_(dict), graph_(*graph) {}

  /// The index of a field's value among the dict's children; 0 if there is no such field.
  size_t find(std::string_view name) const {
    const std::vector<PickleId>& children = graph_.node(dict_).children;
    for (size_t i = 0; i + 1 < children.size(); i += 2) {
      if (graph_.as_string(children[i]) == name) return i + 1;
    }
    return 0;
  }

  bool is_none(std::string_view name) const {
    const size_t place = find(name);
    return place == 0 || graph_.node(value(place)).kind == PickleKind::kNone;
  }

  std::optional<int64_t> as_int(std::string_view name) const {
    const size_t place = find(name);
    return place == 0 ? std::nullopt : graph_.as_int(value(place));
  }

  std::optional<bool> as_bool(std::string_view name) const {
    const size_t place = find(name);
    return place == 0 ? std::nullopt : graph_.as_bool(value(place));
  }

  void set(std::string_view name, PickleId node) {
    const size_t place = find(name);
    if (place != 0) graph_.mutable_node(dict_).children[place] = node;
  }

  // Fields are changed, not added: a field that the source's revision lacks would make its readers
  // guess another revision.
  void set_int(std::string_view name, int64_t number) {
    if (find(name) != 0 && as_int(name) != number) set(name, graph_.add_int(number));
  }

  void set_bool(std::string_view name, bool yes) {
    if (find(name) != 0 && as_bool(name) != yes) set(name, graph_.add_bool(yes));
  }

  void set_text(std::string_view name, std::string_view text) {
    const size_t place = find(name);
    if (place != 0 && graph_.as_string(value(place)) != text)
      set(name, graph_.add_string(std::string(text)));
  }

  void set_none(std::string_view name) {
    if (!is_none(name)) set(name, graph_.add_none());
  }

  void add(std::string_view name, PickleId node) {
    if (find(name) != 0) return set(name, node);
    const PickleId key = graph_.add_string(std::string(name));
    std::vector<PickleId>& children = graph_.mutable_node(dict_).children;
    children.push_back(key);
    children.push_back(node);
  }

  void add_int(std::string_view name, int64_t number) { add(name, graph_.add_int(number)); }

  void add_text(std::string_view name, std::string_view text) {
    add(name, graph_.add_string(std::string(text)));
  }

  /// A list of 0 and 1.
  void add_list(std::string_view name, const std::vector<bool>& elements) {
    std::vector<PickleId> numbers;
    for (const bool element : elements) numbers.push_back(graph_.add_int(element ? 1 : 0));
    add(name, graph_.add_list(std::move(numbers)));
  }

 private:
  PickleId value(size_t place) const { return graph_.node(dict_).children[place]; }

  PickleId dict_;
  PickleGraph& graph_;
};

/// The dict of args, which are an argparse.Namespace or a dict; nullopt for anything else.
inline std::optional<PickleId> args_dict(const PickleGraph& graph, PickleId args) {
  const bool is_dict = graph.node(args).kind == PickleKind::kDict;
  const std::optional<PickleId> dict = is_dict ? args : graph.attributes(args);
  const bool is_found = dict.has_value() && graph.node(*dict).kind == PickleKind::kDict;
  return is_found ? dict : std::nullopt;
}

}  // namespace meg::checkpoint
