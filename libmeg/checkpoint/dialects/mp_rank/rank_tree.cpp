#include "libmeg/checkpoint/dialects/mp_rank/rank_tree.h"

namespace meg::checkpoint {

PickleId RankTree::text(std::string_view text) {
  auto found = texts_.find(text);
  if (found == texts_.end()) {
    found = texts_.emplace(std::string(text), graph().add_string(std::string(text))).first;
  }
  return found->second;
}

PickleId RankTree::dict(std::initializer_list<Entry> entries) {
  std::vector<PickleId> pairs;
  for (const auto& [key, value] : entries) {
    pairs.push_back(text(key));
    pairs.push_back(value);
  }
  return graph().add_dict(std::move(pairs));
}

PickleId RankTree::arg(const ArgValue& value) {
  struct Adder {
    RankTree& tree;

    PickleId operator()(std::monostate) const { return tree.graph().add_none(); }

    PickleId operator()(bool boolean) const { return tree.graph().add_bool(boolean); }

    PickleId operator()(int64_t integer) const { return tree.graph().add_int(integer); }

    PickleId operator()(double real) const { return tree.graph().add_float(real); }

    PickleId operator()(const std::string& text) const { return tree.text(text); }

    PickleId operator()(const ArgValue::List& list) const {
      std::vector<PickleId> elements;
      for (const ArgValue& element : list) elements.push_back(tree.arg(element));
      return tree.graph().add_list(std::move(elements));
    }

    PickleId operator()(const ArgValue::Global& global) const {
      return tree.content().global(global.module, global.name);
    }

    PickleId operator()(const ArgValue::EnumMember& member) const {
      const PickleId value = std::visit(*this, member.value);
      return tree.graph().add_call(PickleCallForm::kReduce, (*this)(member.type),
                                   tree.graph().add_tuple({value}));
    }
  };

  return std::visit(Adder{*this}, value.value);
}

PickleId RankTree::args(const TrainingArgs& args) {
  std::vector<PickleId> pairs;
  for (const auto& [name, value] : args.entries()) {
    pairs.push_back(text(name));
    pairs.push_back(arg(value));
  }
  const PickleId made = graph().add_call(
      PickleCallForm::kNewObj, content_.global("argparse", "Namespace"), graph().add_tuple({}));
  graph().mutable_call(made).states = {graph().add_dict(std::move(pairs))};
  return made;
}

}  // namespace meg::checkpoint
