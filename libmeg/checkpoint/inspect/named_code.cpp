#include "libmeg/checkpoint/inspect/named_code.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>

#include "libmeg/base/dtype.h"

namespace meg::checkpoint {
namespace {

constexpr size_t kCallBytes = 200;

/// What files of torch.save and Megatron name in ordinary runs; everything else is shown first,
/// with a call, because torch.load would run it. Sorted, as is_usual() looks names up by halves.
constexpr std::array<std::string_view, 41> kUsual = {
    "__builtin__.bytearray",
    "__builtin__.bytes",
    "__builtin__.complex",
    "__builtin__.frozenset",
    "__builtin__.object",
    "__builtin__.range",
    "__builtin__.set",
    "__builtin__.slice",
    "__builtin__.xrange",
    "_codecs.encode",
    "_io.BytesIO",
    "argparse.Namespace",
    "builtins.bytearray",
    "builtins.complex",
    "builtins.frozenset",
    "builtins.object",
    "builtins.range",
    "builtins.set",
    "builtins.slice",
    "collections.OrderedDict",
    "copy_reg._reconstructor",
    "copyreg._reconstructor",
    "io.BytesIO",
    "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "numpy.dtype",
    "numpy.ndarray",
    "signal.Signals",
    "torch.Size",
    "torch.Tensor",
    "torch._tensor._rebuild_from_type_v2",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch.device",
    "torch.nn.parameter.Parameter",
    "torch.storage.TypedStorage",
    "torch.storage.UntypedStorage",
};

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

/// Storage classes, dtypes and Megatron's enums have many names.
bool is_usual(std::string_view name) {
  if (std::binary_search(kUsual.begin(), kUsual.end(), name)) return true;
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view module = name.substr(0, dot);
  const std::string_view last = name.substr(dot + 1);
  if (module == "torch") return last.ends_with("Storage") || dtype_from_name(last).has_value();
  return module.starts_with("megatron.") && !last.empty() && is_upper(last[0]);
}

}  // namespace

std::vector<NamedCode> named_code(const PickleGraph& graph) {
  std::map<std::string, NamedCode> by_name;
  for (PickleId id = 0; id < graph.size(); ++id) {
    const PickleKind kind = graph.node(id).kind;
    if (kind != PickleKind::kGlobal && kind != PickleKind::kCall) continue;
    std::string name = graph.class_name(id);
    if (name.empty()) name = "(what another call returns)";
    NamedCode& code = by_name[name];
    if (code.name.empty()) {
      code.name = name;
      code.is_usual = is_usual(name);
    }
    if (kind != PickleKind::kCall) continue;
    if (++code.calls == 1 && !code.is_usual) code.first_call = graph.describe(id, kCallBytes);
  }
  std::vector<NamedCode> codes;
  for (auto& entry : by_name) codes.push_back(std::move(entry.second));
  std::stable_sort(codes.begin(), codes.end(), [](const NamedCode& a, const NamedCode& b) {
    return std::tie(a.is_usual, a.name) < std::tie(b.is_usual, b.name);
  });
  return codes;
}

}  // namespace meg::checkpoint
