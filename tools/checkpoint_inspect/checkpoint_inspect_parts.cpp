#include "tools/checkpoint_inspect/checkpoint_inspect_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace meg::tools {

const std::string_view kCheckpointStyle = R"(
:root { --model: #2f6fb3; --optimizer: #c07a1e; --other: #7d8794; }
@media (prefers-color-scheme: dark) { :root { --model: #6ba6e5; --optimizer: #e0a458; --other: #8d97a5; } }
.shape { white-space: nowrap; }
.ranks { display: grid; gap: .5rem; overflow-x: auto; }
.rank { background: var(--card); border: 1px solid var(--line); border-radius: .4rem;
  padding: .5rem .7rem; min-width: 11rem; } .missing { border: 1px dashed var(--bad); }
.model { fill: var(--model); background: var(--model); }
.optimizer { fill: var(--optimizer); background: var(--optimizer); }
.other { fill: var(--other); background: var(--other); }
.key { display: inline-block; width: .7rem; height: .7rem; margin-right: .3rem; }
)";

std::string share_bar(const std::vector<std::pair<std::string_view, double>>& parts, int width) {
  double sum = 0;
  for (const auto& part : parts) sum += part.second;
  std::string html = fmt::format("<svg width={} height=10 role=img>", width);
  double x = 0;
  for (const auto& [name, value] : parts) {
    // Without any value every part has no width, instead of dividing by nothing.
    const double part = sum > 0 ? value / sum * width : 0;
    html += fmt::format("<rect class={} x={:.1f} width={:.1f} height=10><title>{}</title></rect>",
                        name, x, part, name);
    x += part;
  }
  return html + "</svg>";
}

std::string layer_bars(const LayerValues& values, std::string_view style) {
  constexpr double kWidth = 6, kHeight = 36;
  if (values.empty()) return "";
  double most = 0;
  for (const auto& value : values) most = std::max(most, value.value_or(0));
  std::string html = fmt::format("<svg width={} height={} role=img>",
                                 kWidth * static_cast<double>(values.size()), kHeight);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].has_value()) continue;
    // Draw at least a pixel: a small value is not none.
    const double height = most > 0 ? std::max(1.0, *values[i] / most * kHeight) : 1.0;
    html += fmt::format(
        "<rect class={} x={} y={:.1f} width={} height={:.1f}><title>layer {}: "
        "{:.5g}</title></rect>",
        style, static_cast<double>(i) * kWidth, kHeight - height, kWidth - 1, height, i,
        *values[i]);
  }
  return html + fmt::format("</svg><span class=soft>maximum {:.3g}</span>", most);
}

}  // namespace meg::tools
