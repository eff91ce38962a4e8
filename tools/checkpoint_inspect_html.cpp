#include "tools/checkpoint_inspect_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "libmeg/core/utf8.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;
using Row = std::vector<std::string>;

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5c6675; --line: #d6dbe2; --page: #ffffff;
  --card: #f5f7f9; --model: #2f6fb3; --optimizer: #c07a1e; --other: #7d8794; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #39424e;
  --page: #14181d; --card: #1d232a; --model: #6ba6e5; --optimizer: #e0a458; --other: #8d97a5;
  --bad: #ff8a80; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .15rem .8rem .15rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: break-word; }
th { color: var(--soft); font-weight: 600; } td.number, th.number { text-align: right; white-space: nowrap; }
.facts { display: flex; flex-wrap: wrap; gap: 0 3rem; align-items: flex-start; }
.shape { white-space: nowrap; }
.scroll { overflow-x: auto; } .soft { color: var(--soft); } .bad { color: var(--bad); }
.ranks { display: grid; gap: .5rem; overflow-x: auto; }
.rank { background: var(--card); border: 1px solid var(--line); border-radius: .4rem;
  padding: .5rem .7rem; min-width: 11rem; } .missing { border: 1px dashed var(--bad); }
svg { display: block; } svg text { fill: var(--soft); font-size: 10px; }
.model { fill: var(--model); background: var(--model); }
.optimizer { fill: var(--optimizer); background: var(--optimizer); }
.other { fill: var(--other); background: var(--other); }
.key { display: inline-block; width: .7rem; height: .7rem; margin-right: .3rem; }
code { font: 13px ui-monospace, monospace; } summary { cursor: pointer; color: var(--soft); }
)";

/// Text for HTML, from bytes that may be anything.
std::string escaped(std::string_view bytes) {
  std::string valid, text;
  append_replacing_invalid_utf8(bytes, valid);
  for (const char c : valid) {
    switch (c) {
      case '&':
        text += "&amp;";
        break;
      case '<':
        text += "&lt;";
        break;
      case '>':
        text += "&gt;";
        break;
      case '"':
        text += "&quot;";
        break;
      case '\'':
        text += "&#39;";
        break;
      default:
        text += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return text;
}

std::string text_of(const ordered_json& value) {
  if (value.is_null()) return "–";
  if (value.is_string()) return escaped(value.get_ref<const std::string&>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) return fmt::format("{:.5g}", value.get<double>());
  if (value.is_array()) {
    std::string text;
    for (const ordered_json& item : value) text += (text.empty() ? "" : ", ") + text_of(item);
    return "[" + text + "]";
  }
  return escaped(value.dump());
}

std::string shape_text(const ordered_json& shape) {
  return "<span class=shape>" + text_of(shape) + "</span>";
}

/// 1234567 as 1,234,567.
std::string grouped(const ordered_json& count) {
  std::string digits = count.is_null() ? "–" : count.dump();
  if (count.is_null()) return digits;
  for (size_t at = digits.size(); at > 3 + (digits[0] == '-' ? 1U : 0U);) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string bytes_text(const ordered_json& count) {
  static constexpr std::string_view kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto bytes = count.get<double>();
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

/// A table; cells are HTML. numbers: columns from this one on are aligned right.
std::string table(const Row& head, const std::vector<Row>& rows, size_t numbers = 100) {
  std::string html = "<div class=scroll><table>";
  const auto add = [&](const Row& row, std::string_view tag) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      html += fmt::format("<{}{}>{}</{}>", tag, i >= numbers ? " class=number" : "", row[i], tag);
    }
    html += "</tr>\n";
  };
  if (!head.empty()) add(head, "th");
  for (const Row& row : rows) add(row, "td");
  return html + "</table></div>\n";
}

std::string section(std::string_view title, const std::string& content) {
  return content.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", title, content);
}

std::string folded(std::string_view title, const std::string& content) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", title, content);
}

/// Parts of a whole side by side, as one bar.
std::string share_bar(const std::vector<std::pair<std::string_view, double>>& parts, int width) {
  double sum = 0;
  for (const auto& part : parts) sum += part.second;
  std::string html = fmt::format("<svg width={} height=10 role=img>", width);
  double x = 0;
  for (const auto& [name, value] : parts) {
    const double part = sum > 0 ? value / sum * width : 0;
    html += fmt::format("<rect class={} x={:.1f} width={:.1f} height=10><title>{}</title></rect>",
                        name, x, part, name);
    x += part;
  }
  return html + "</svg>";
}

using LayerValues = std::vector<std::optional<double>>;

/// A bar for every layer; what is missing leaves a gap.
std::string layer_bars(const LayerValues& values, std::string_view kind) {
  constexpr double kWidth = 6, kHeight = 36;
  if (values.empty()) return "";
  double most = 0;
  for (const auto& value : values) most = std::max(most, value.value_or(0));
  std::string html = fmt::format("<svg width={} height={} role=img>",
                                 kWidth * static_cast<double>(values.size()), kHeight);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].has_value()) continue;
    const double height = most > 0 ? std::max(1.0, *values[i] / most * kHeight) : 1.0;
    html += fmt::format(
        "<rect class={} x={} y={:.1f} width={} height={:.1f}><title>layer {}: "
        "{:.5g}</title></rect>",
        kind == "weight" || kind == "fp32_param" ? "model" : "optimizer",
        static_cast<double>(i) * kWidth, kHeight - height, kWidth - 1, height, i, *values[i]);
  }
  return html + fmt::format("</svg><span class=soft>most {:.3g}</span>", most);
}

std::string facts(const ordered_json& answer) {
  std::vector<Row> rows;
  const auto add = [&](const char* name, std::string value) {
    rows.push_back({name, std::move(value)});
  };
  add("format", text_of(answer["format"]) + ", " + text_of(answer["names"]) + " names");
  add("iteration", text_of(answer["iteration"]));
  add("checkpoint_version", text_of(answer["checkpoint_version"]));
  add("parallel sizes", fmt::format("tensor {}, pipeline {}, virtual pipeline {}, expert {}",
                                    text_of(answer["tensor_model_parallel_size"]),
                                    text_of(answer["pipeline_model_parallel_size"]),
                                    text_of(answer["virtual_pipeline_model_parallel_size"]),
                                    text_of(answer["expert_model_parallel_size"])));
  add("files", fmt::format("{} with {} bytes", answer["files"].size(), grouped(answer["bytes"])));
  add("parameters", grouped(answer["parameters"]));
  add("without padding rows", grouped(answer["unpadded_parameters"]));
  add("padded vocabulary", grouped(answer["padded_vocab_size"]));
  add("optimizer", fmt::format("{}, {} bytes", text_of(answer["optimizer"]["form"]),
                               grouped(answer["optimizer"]["bytes"])));
  add("grad scaler, scheduler, rng",
      fmt::format("{}, {}, {}", text_of(answer["grad_scaler"]), text_of(answer["scheduler"]),
                  text_of(answer["rng"])));
  if (!answer["problem"].is_null()) {
    add("problem", "<span class=bad>" + text_of(answer["problem"]) + "</span>");
  }
  if (answer.contains("nan")) {
    const bool bad = answer["nan"] != 0 || answer["infinite"] != 0;
    add("NaN, infinite", fmt::format("<span class={}>{}, {}</span>", bad ? "bad" : "soft",
                                     grouped(answer["nan"]), grouped(answer["infinite"])));
  }
  std::vector<Row> model;
  if (!answer["model"].is_null()) {
    for (const auto& [name, value] : answer["model"].items()) {
      model.push_back({escaped(name), text_of(value)});
    }
  }
  return "<div class=facts>" + table({}, rows) + table({}, model) + "</div>\n";
}

/// The layers that a stage holds, as "0-5" or, with virtual stages, "0-1, 4-5".
std::string layers_of(const ordered_json& answer, int64_t stage) {
  std::vector<int64_t> layers;
  for (const ordered_json& parameter : answer["placement"]) {
    if (parameter["stage"] == stage && !parameter["layer"].is_null()) {
      layers.push_back(parameter["layer"].get<int64_t>());
    }
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  std::string text;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", layers[i]);
    if (end - i > 1) text += fmt::format("–{}", layers[end - 1]);
    i = end;
  }
  return text;
}

std::string rank_card(const ordered_json& rank, const std::string& layers) {
  return fmt::format(
      "<div class=rank><b>{}</b><br>tensor {}, pipeline {}{}<br>{} parameters<br>{} in files{}{}"
      "</div>\n",
      text_of(rank["name"]), text_of(rank["tensor_rank"]), text_of(rank["pipeline_rank"]),
      rank["expert_rank"] == 0 ? "" : ", expert " + text_of(rank["expert_rank"]),
      grouped(rank["parameters"]), bytes_text(rank["bytes"]),
      layers.empty() ? "" : "<br>layers " + layers,
      share_bar({{"model", rank["model_bytes"].get<double>()},
                 {"optimizer", rank["optimizer_bytes"].get<double>()},
                 {"other", rank["other_bytes"].get<double>()}},
                160));
}

/// Tensor ranks from left to right, pipeline stages downwards.
std::string rank_grid(const ordered_json& answer) {
  if (answer["ranks"].empty()) return "";
  std::vector<ordered_json> ranks(answer["ranks"].begin(), answer["ranks"].end());
  std::stable_sort(ranks.begin(), ranks.end(), [](const ordered_json& a, const ordered_json& b) {
    return a["pipeline_rank"] < b["pipeline_rank"];
  });
  std::map<int64_t, std::string> layers;
  std::string cards;
  for (const ordered_json& rank : ranks) {
    const auto stage = rank["pipeline_rank"].get<int64_t>();
    if (!layers.contains(stage)) layers[stage] = layers_of(answer, stage);
    cards += rank_card(rank, layers[stage]);
  }
  for (const ordered_json& name : answer["missing_ranks"]) {
    cards +=
        fmt::format("<div class='rank missing bad'><b>{}</b><br>missing</div>\n", text_of(name));
  }
  const bool is_whole = answer["missing_ranks"].empty();
  const auto columns = is_whole ? answer["tensor_model_parallel_size"].get<int64_t>() *
                                      answer["expert_model_parallel_size"].get<int64_t>()
                                : int64_t{4};
  return fmt::format(
      "<p class=soft><span class='key model'></span>model <span class='key optimizer'></span>"
      "optimizer <span class='key other'></span>other</p>\n"
      "<div class=ranks style='grid-template-columns: repeat({}, minmax(11rem, "
      "16rem))'>\n{}</div>\n",
      columns, cards);
}

std::string dtype_shares(const ordered_json& answer) {
  std::vector<Row> rows;
  double most = 1;
  for (const ordered_json& share : answer["dtypes"]) {
    most = std::max(most, share["bytes"].get<double>());
  }
  for (const ordered_json& share : answer["dtypes"]) {
    const double width = share["bytes"].get<double>() / most * 240;
    rows.push_back({text_of(share["group"]), text_of(share["dtype"]),
                    fmt::format("<svg width=240 height=10><rect class={} width={:.1f} height=10>"
                                "</rect></svg>",
                                text_of(share["group"]), width),
                    grouped(share["tensors"]), grouped(share["elements"]),
                    grouped(share["bytes"])});
  }
  return table({"group", "dtype", "share", "tensors", "elements", "bytes"}, rows, 3);
}

/// Norms of every kind of layer parameter over the layers, in the model's order.
std::string layer_norms(const ordered_json& answer) {
  if (!answer.contains("statistics")) return "";
  std::vector<std::string> modules, kinds;
  std::map<std::pair<std::string, std::string>, LayerValues> norms;
  const auto note_once = [](std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const ordered_json& tensor : answer["statistics"]) {
    if (!tensor.contains("kind") || tensor["layer"].is_null()) continue;
    const auto module = tensor["module"].get<std::string>();
    const auto kind = tensor["kind"].get<std::string>();
    note_once(modules, module);
    note_once(kinds, kind);
    LayerValues& values = norms[{module, kind}];
    const auto layer = tensor["layer"].get<size_t>();
    if (values.size() <= layer) values.resize(layer + 1);
    if (!tensor["norm"].is_null()) values[layer] = tensor["norm"].get<double>();
  }
  if (modules.empty()) return "";
  Row head = {"parameter of a layer"};
  for (const std::string& kind : kinds) head.push_back(escaped(kind) + ", L2 norm by layer");
  std::vector<Row> rows;
  for (const std::string& module : modules) {
    Row row = {"<code>" + escaped(module) + "</code>"};
    for (const std::string& kind : kinds) row.push_back(layer_bars(norms[{module, kind}], kind));
    rows.push_back(std::move(row));
  }
  return table(head, rows);
}

std::string placement_table(const ordered_json& answer) {
  std::vector<Row> rows;
  for (const ordered_json& parameter : answer["placement"]) {
    std::string kinds;
    for (const ordered_json& tensor : parameter["tensors"]) {
      kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", text_of(tensor["kind"]),
                           text_of(tensor["dtype"]));
    }
    rows.push_back({"<code>" + text_of(parameter["name"]) + "</code>",
                    shape_text(parameter["shape"]), text_of(parameter["cut"]),
                    shape_text(parameter["shard_shape"]), text_of(parameter["stage"]),
                    text_of(parameter["chunk"]), kinds, grouped(parameter["bytes"])});
  }
  if (rows.empty()) return "";
  return folded(fmt::format("{} parameters: shape, cut, stage", rows.size()),
                table({"parameter", "shape", "cut over tensor ranks", "on each", "stage", "chunk",
                       "tensors", "bytes"},
                      rows, 7));
}

std::string statistics_table(const ordered_json& answer) {
  if (!answer.contains("statistics")) return "";
  std::vector<Row> rows;
  for (const ordered_json& tensor : answer["statistics"]) {
    rows.push_back({"<code>" + text_of(tensor["name"]) + "</code>",
                    text_of(tensor.contains("kind") ? tensor["kind"] : tensor["file"]),
                    text_of(tensor["dtype"]), text_of(tensor["min"]), text_of(tensor["max"]),
                    text_of(tensor["mean"]), text_of(tensor["norm"]),
                    text_of(tensor["zero_fraction"]), grouped(tensor["nan"]),
                    grouped(tensor["infinite"])});
  }
  return folded(fmt::format("{} tensors", rows.size()),
                table({"tensor", "kind or file", "dtype", "min", "max", "mean", "L2 norm", "zeros",
                       "NaN", "Inf"},
                      rows, 3));
}

std::string args_table(const ordered_json& answer) {
  if (!answer.contains("args")) return "";
  std::vector<Row> rows;
  for (const ordered_json& arg : answer["args"]) {
    rows.push_back({"<code>" + text_of(arg["name"]) + "</code>", text_of(arg["text"])});
  }
  return folded(fmt::format("{} args", rows.size()), table({}, rows));
}

std::string code_table(const ordered_json& answer) {
  std::vector<Row> rows;
  for (const ordered_json& code : answer["code"]) {
    const bool usual = code["usual"].get<bool>();
    rows.push_back(
        {fmt::format("<code class={}>{}</code>", usual ? "soft" : "bad", text_of(code["name"])),
         usual ? "usual" : text_of(code["first_call"]), grouped(code["calls"])});
  }
  return folded("classes and functions that the files name; none was executed",
                table({"name", "first call", "calls"}, rows, 2));
}

}  // namespace

std::string html_page(const ordered_json& answer) {
  const std::string title = text_of(answer["folder"]);
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
      "<meta name=viewport content='width=device-width, initial-scale=1'>\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
      title, kStyle, title);
  page += facts(answer);
  page += section("Ranks", rank_grid(answer));
  page += section("Types", dtype_shares(answer));
  page += section("Layers", layer_norms(answer));
  page += section("Where parameters lie", placement_table(answer));
  page += section("Statistics", statistics_table(answer));
  page += section("Args", args_table(answer));
  page += section("Named code", code_table(answer));
  return page + "</body>\n</html>\n";
}

}  // namespace meg::tools
