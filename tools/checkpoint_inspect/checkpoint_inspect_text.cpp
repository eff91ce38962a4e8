#include "tools/checkpoint_inspect/checkpoint_inspect_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

/// Ranks and files beyond so many are summed up.
constexpr size_t kShownMissing = 8;

int64_t number(const ordered_json& object, const char* field) {
  return object[field].get<int64_t>();
}

/// Text of a file of strangers without what would move a terminal's cursor.
std::string plain(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      shown += c;
    }
  }
  return shown;
}

std::string text_of(const ordered_json& object, const char* field) {
  return plain(object[field].get_ref<const std::string&>());
}

void print_field(std::string_view name, std::string_view text) {
  fmt::print("{:<12} {}\n", name, text);
}

std::string yes_or_no(const ordered_json& value) { return value.get<bool>() ? "yes" : "no"; }

std::string shape_of(const ordered_json& shape) {
  std::vector<int64_t> sizes = shape.get<std::vector<int64_t>>();
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

void print_layout(const ordered_json& answer) {
  print_field("checkpoint", text_of(answer, "folder"));
  std::string format = text_of(answer, "format");
  if (!answer["names"].is_null()) format += fmt::format(", {} names", text_of(answer, "names"));
  if (!answer["checkpoint_version"].is_null()) {
    format += fmt::format(", checkpoint_version {}", answer["checkpoint_version"].dump());
  }
  print_field("format", format);
  if (answer["release"].get<bool>()) {
    print_field("iteration", "0 (release)");
  } else if (!answer["iteration"].is_null()) {
    print_field("iteration", answer["iteration"].dump());
  }
  if (answer["ranks"].empty()) return;
  std::string sizes =
      fmt::format("tensor {}, pipeline {}", number(answer, "tensor_model_parallel_size"),
                  number(answer, "pipeline_model_parallel_size"));
  const int64_t chunks = number(answer, "virtual_pipeline_model_parallel_size");
  const int64_t experts = number(answer, "expert_model_parallel_size");
  if (chunks > 1) sizes += fmt::format(", virtual pipeline {}", chunks);
  if (experts > 1) sizes += fmt::format(", expert {}", experts);
  const int64_t expert_tensor = number(answer, "expert_tensor_parallel_size");
  if (expert_tensor != number(answer, "tensor_model_parallel_size")) {
    sizes += fmt::format(", expert tensor {}", expert_tensor);
  }
  if (text_of(answer, "sizes_from") != "args") sizes += " (from the names of the folders)";
  print_field("parallel", sizes);
}

void print_files(const ordered_json& answer) {
  const size_t count = answer["files"].size();
  if (count == 0) return;
  print_field("files", fmt::format("{} with {} bytes", count, number(answer, "bytes")));
  for (const ordered_json& file : answer["files"]) {
    if (!file["error"].is_null()) fmt::print("  unreadable {}\n", text_of(file, "error"));
    if (file["tensors_cut"].get<bool>()) {
      fmt::print("  {}: more tensors than are listed, because parts are shared repeatedly\n",
                 text_of(file, "path"));
    }
  }
  const ordered_json& missing = answer["missing_ranks"];
  if (missing.empty()) return;
  std::string names;
  for (size_t i = 0; i < std::min(missing.size(), kShownMissing); ++i) {
    names += " " + missing[i].get<std::string>();
  }
  print_field("missing", fmt::format("{} of {} ranks:{}{}", missing.size(),
                                     missing.size() + answer["ranks"].size(), names,
                                     missing.size() > kShownMissing ? " ..." : ""));
}

std::string_view mlp_text(const ordered_json& model) {
  if (model["swiglu"].get<bool>()) return " swiglu";
  return model["gated_linear_unit"].get<bool>() ? " gated" : "";
}

void print_model(const ordered_json& answer) {
  if (!answer["model"].is_null()) {
    const ordered_json& model = answer["model"];
    print_field("model",
                fmt::format("{} layers, hidden {}, {} heads of {}, {} query groups, ffn {}{}",
                            number(model, "num_layers"), number(model, "hidden_size"),
                            number(model, "num_attention_heads"), number(model, "kv_channels"),
                            number(model, "num_query_groups"), number(model, "ffn_hidden_size"),
                            mlp_text(model)));
    print_field(
        "",
        fmt::format("seq {}, positions {} ({}), {}, {} bias, {} output layer",
                    number(model, "seq_length"), number(model, "max_position_embeddings"),
                    text_of(model, "position_embedding_type"), text_of(model, "normalization"),
                    model["add_bias_linear"].get<bool>() ? "with" : "no",
                    model["untie_embeddings_and_output_weights"].get<bool>() ? "untied" : "tied"));
  }
  if (!answer["padded_vocab_size"].is_null()) {
    const bool is_known = !answer["true_vocab_size"].is_null();
    print_field(
        "vocabulary",
        fmt::format("{} rows with padding{}", number(answer, "padded_vocab_size"),
                    is_known ? fmt::format(", {} tokens", number(answer, "true_vocab_size")) : ""));
  }
  for (const ordered_json& rank : answer["ranks"]) {
    if (rank["parameters"].is_null()) continue;
    const int64_t expert = number(rank, "expert_rank");
    fmt::print(
        " > number of parameters on (tensor, pipeline) model parallel rank ({}, {}): {}{}\n",
        number(rank, "tensor_rank"), number(rank, "pipeline_rank"), number(rank, "parameters"),
        number(answer, "expert_model_parallel_size") > 1 ? fmt::format(" (expert rank {})", expert)
                                                         : "");
  }
  if (answer.contains("tree") && number(answer, "args_count") > 0) {
    print_field("parameters",
                fmt::format("{} in this rank's model", number(answer["files"][0], "parameters")));
  }
  if (answer["parameters"].is_null()) return;
  std::string count = fmt::format("{} in the whole model", number(answer, "parameters"));
  if (!answer["unpadded_parameters"].is_null()) {
    count +=
        fmt::format(", {} without the vocabulary's padding", number(answer, "unpadded_parameters"));
  }
  print_field("parameters", count);
}

void print_dtypes(const ordered_json& answer) {
  if (answer["dtypes"].empty()) return;
  print_field("tensors", fmt::format("{:<10} {:<14} {:>8} {:>16} {:>16}", "group", "dtype",
                                     "tensors", "elements", "bytes"));
  for (const ordered_json& share : answer["dtypes"]) {
    print_field("", fmt::format("{:<10} {:<14} {:>8} {:>16} {:>16}", text_of(share, "group"),
                                text_of(share, "dtype"), number(share, "tensors"),
                                number(share, "elements"), number(share, "bytes")));
  }
}

void print_state(const ordered_json& answer) {
  // Any torch file can be inspected: one without args and ranks has no optimizer to speak of.
  const bool is_training_file = number(answer, "args_count") > 0 || !answer["ranks"].empty();
  if (!is_training_file) return;
  const ordered_json& optimizer = answer["optimizer"];
  std::string form = text_of(optimizer, "form");
  if (form == "mixed precision") form += ", fp32 masters";
  if (form != "none") form += fmt::format(", {} bytes", number(optimizer, "bytes"));
  print_field("optimizer", form);
  print_field("grad scaler", yes_or_no(answer["grad_scaler"]));
  print_field("scheduler", yes_or_no(answer["scheduler"]));
  print_field("rng state", yes_or_no(answer["rng"]));
  print_field("args", fmt::format("{}", number(answer, "args_count")));
}

void print_code(const ordered_json& answer) {
  std::string usual;
  for (const ordered_json& code : answer["code"]) {
    if (code["usual"].get<bool>()) {
      usual += (usual.empty() ? "" : ", ") + text_of(code, "name");
      continue;
    }
    const int64_t calls = number(code, "calls");
    print_field("names code", fmt::format("{}, never executed{}", text_of(code, "name"),
                                          calls == 0 ? ""
                                                     : fmt::format("; {} {}: {}", calls,
                                                                   calls == 1 ? "call" : "calls",
                                                                   text_of(code, "first_call"))));
  }
  if (!usual.empty()) print_field("names code", usual + " (usual ones, never executed)");
}

void print_tree(const ordered_json& answer) {
  if (!answer.contains("tree")) return;
  fmt::print("\ncontent\n");
  for (const ordered_json& line : answer["tree"]) {
    const std::string key = text_of(line, "key");
    fmt::print("{:{}}{}{}\n", "", 2 + 2 * number(line, "depth"), key.empty() ? "" : key + ": ",
               text_of(line, "text"));
  }
  if (answer["tree_cut"].get<bool>()) fmt::print("  ... (more; --tensors lists all tensors)\n");
}

void print_tensors(const ordered_json& answer) {
  if (!answer.contains("tensors")) return;
  std::string file;
  for (const ordered_json& tensor : answer["tensors"]) {
    if (text_of(tensor, "file") != file) {
      file = text_of(tensor, "file");
      fmt::print("\ntensors of {}\n", file);
    }
    std::string place = "in the pickle";
    if (!tensor["storage"].is_null()) {
      place = "storage " + text_of(tensor, "storage");
      if (number(tensor, "offset") != 0) place += fmt::format("+{}", number(tensor, "offset"));
      if (!tensor["contiguous"].get<bool>()) place += " strides " + shape_of(tensor["strides"]);
    }
    fmt::print("  {:<70} {:<13} {:<16} {:>12} bytes  {}\n", text_of(tensor, "name"),
               text_of(tensor, "dtype"), shape_of(tensor["shape"]), number(tensor, "bytes"), place);
  }
}

std::string real(const ordered_json& value) {
  return value.is_null() ? "-" : fmt::format("{:.6g}", value.get<double>());
}

void print_statistics(const ordered_json& answer) {
  if (!answer.contains("statistics")) return;
  fmt::print("\n{:<70} {:<13} {:>13} {:>13} {:>13} {:>13} {:>7} {:>8} {:>8}\n", "statistics",
             "dtype", "min", "max", "mean", "norm", "zeros", "NaN", "Inf");
  std::string file;
  for (const ordered_json& tensor : answer["statistics"]) {
    if (tensor.contains("file") && text_of(tensor, "file") != file) {
      file = text_of(tensor, "file");
      fmt::print("{}\n", file);
    }
    std::string name = text_of(tensor, "name");
    if (tensor.contains("kind") && text_of(tensor, "kind") != "weight") {
      name += " " + text_of(tensor, "kind");
    }
    fmt::print("  {:<68} {:<13} {:>13} {:>13} {:>13} {:>13} {:>5.1f} % {:>8} {:>8}\n", name,
               text_of(tensor, "dtype"), real(tensor["min"]), real(tensor["max"]),
               real(tensor["mean"]), real(tensor["norm"]),
               100 * tensor["zero_fraction"].get<double>(), number(tensor, "nan"),
               number(tensor, "infinite"));
  }
  fmt::print("{} NaN and {} infinite elements in {} tensors\n", number(answer, "nan"),
             number(answer, "infinite"), answer["statistics"].size());
}

void print_args(const ordered_json& answer) {
  if (!answer.contains("args")) return;
  fmt::print("\nargs\n");
  for (const ordered_json& arg : answer["args"]) {
    fmt::print("  {:<45} {}\n", text_of(arg, "name"), text_of(arg, "text"));
  }
}

}  // namespace

void print_answer(const ordered_json& answer) {
  print_layout(answer);
  print_files(answer);
  print_model(answer);
  print_dtypes(answer);
  print_state(answer);
  print_code(answer);
  print_tree(answer);
  print_tensors(answer);
  print_args(answer);
  print_statistics(answer);
}

}  // namespace meg::tools
