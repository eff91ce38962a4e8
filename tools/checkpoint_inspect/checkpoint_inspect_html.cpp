#include "tools/checkpoint_inspect/checkpoint_inspect_html.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "libmeg/base/version.h"
#include "tools/checkpoint_inspect/checkpoint_inspect_parts.h"
#include "tools/common/html_page.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

/// A picture has room for no more.
constexpr size_t kMaxLayers = 10'000;

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

std::string count_text(const ordered_json& count) {
  return count.is_null() ? "–" : grouped(count.get<int64_t>());
}

std::string facts(const ordered_json& answer) {
  std::vector<Row> rows;
  const auto add = [&](const char* name, std::string value) {
    rows.push_back({name, std::move(value)});
  };
  add("format", text_of(answer["format"]) + ", " + text_of(answer["names"]) + " names");
  add("iteration", text_of(answer["iteration"]));
  add("checkpoint_version", text_of(answer["checkpoint_version"]));
  add("parallel sizes", fmt::format("tensor {}, pipeline {}, virtual pipeline {}, expert {}, "
                                    "expert tensor {}",
                                    text_of(answer["tensor_model_parallel_size"]),
                                    text_of(answer["pipeline_model_parallel_size"]),
                                    text_of(answer["virtual_pipeline_model_parallel_size"]),
                                    text_of(answer["expert_model_parallel_size"]),
                                    text_of(answer["expert_tensor_parallel_size"])));
  add("files",
      fmt::format("{} with {} bytes", answer["files"].size(), count_text(answer["bytes"])));
  add("parameters", count_text(answer["parameters"]));
  add("without padding rows", count_text(answer["unpadded_parameters"]));
  add("rows of the vocabulary", count_text(answer["padded_vocab_size"]));
  add("tokens of the vocabulary", count_text(answer["true_vocab_size"]));
  add("optimizer", fmt::format("{}, {} bytes", text_of(answer["optimizer"]["form"]),
                               count_text(answer["optimizer"]["bytes"])));
  add("grad scaler, scheduler, rng",
      fmt::format("{}, {}, {}", text_of(answer["grad_scaler"]), text_of(answer["scheduler"]),
                  text_of(answer["rng"])));
  if (!answer["problem"].is_null()) {
    add("problem", "<span class=bad>" + text_of(answer["problem"]) + "</span>");
  }
  if (answer.contains("nan")) {
    const bool bad = answer["nan"] != 0 || answer["infinite"] != 0;
    add("NaN, infinite", fmt::format("<span class={}>{}, {}</span>", bad ? "bad" : "soft",
                                     count_text(answer["nan"]), count_text(answer["infinite"])));
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
      count_text(rank["parameters"]), bytes_text(rank["bytes"].get<double>()),
      layers.empty() ? "" : "<br>layers " + layers,
      share_bar({{"model", rank["model_bytes"].get<double>()},
                 {"optimizer", rank["optimizer_bytes"].get<double>()},
                 {"other", rank["other_bytes"].get<double>()}},
                160));
}

/// Tensor ranks from left to right, pipeline stages downwards: a row of the grid is a stage, if
/// none is missing.
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
  const auto columns = is_whole ? answer["expert_tensor_parallel_size"].get<int64_t>() *
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
                    count_text(share["tensors"]), count_text(share["elements"]),
                    count_text(share["bytes"])});
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
    // A file may claim any number of a layer: the chart has a column for each up to a limit.
    if (layer >= kMaxLayers) continue;
    if (values.size() <= layer) values.resize(layer + 1);
    if (!tensor["norm"].is_null()) values[layer] = tensor["norm"].get<double>();
  }
  if (modules.empty()) return "";
  Row head = {"parameter of a layer"};
  for (const std::string& kind : kinds) head.push_back(escaped(kind) + ", L2 norm by layer");
  std::vector<Row> rows;
  for (const std::string& module : modules) {
    Row row = {"<code>" + escaped(module) + "</code>"};
    for (const std::string& kind : kinds) {
      // Weights and their masters in one colour, what the optimizer keeps in the other.
      const bool is_weight = kind == "weight" || kind == "fp32_param";
      row.push_back(layer_bars(norms[{module, kind}], is_weight ? "model" : "optimizer"));
    }
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
                    text_of(parameter["chunk"]), kinds, count_text(parameter["bytes"])});
  }
  if (rows.empty()) return "";
  return folded(fmt::format("{} parameters: shape, partition, stage", rows.size()),
                table({"parameter", "shape", "split over tensor ranks", "on each", "stage", "chunk",
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
                    text_of(tensor["zero_fraction"]), count_text(tensor["nan"]),
                    count_text(tensor["infinite"])});
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
         usual ? "usual" : text_of(code["first_call"]), count_text(code["calls"])});
  }
  return folded("classes and functions that the files name; none was executed",
                table({"name", "first call", "calls"}, rows, 2));
}

}  // namespace

std::string html_page(const ordered_json& answer) {
  const std::string title = text_of(answer["folder"]);
  std::string page = page_head(title, kCheckpointStyle);
  page += facts(answer);
  page += section("Ranks", rank_grid(answer));
  page += section("Types", dtype_shares(answer));
  page += section("Layers", layer_norms(answer));
  page += section("Placement of parameters", placement_table(answer));
  page += section("Statistics", statistics_table(answer));
  page += section("Args", args_table(answer));
  page += section("Named code", code_table(answer));
  return page + page_end(fmt::format("checkpoint_inspect of libmeg {}, {:%Y-%m-%d %H:%M} UTC",
                                     version(), fmt::gmtime(std::time(nullptr))));
}

}  // namespace meg::tools
