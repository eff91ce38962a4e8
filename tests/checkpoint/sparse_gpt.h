#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/io/crc32.h"
#include "libmeg/model/vocab_padding.h"

namespace meg::test {

/// A GPT checkpoint under legacy names whose storages are holes: zeros that take no disk.
struct SparseGpt {
  int64_t tensor_size = 1, pipeline_size = 1;
  int64_t layers = 24, hidden = 1024, heads = 16, positions = 1024, vocab = 50257;
  bool has_optimizer = false;  ///< fp16 weights with masters and moments; else fp32 weights alone.

  /// Writes `root`/iter_0000100 with the tracker.
  Status write(const std::string& root) const;

 private:
  struct Row {
    std::string name;  ///< Below language_model; keys before the first layer's are joined by '/'.
    std::vector<int64_t> shape;
  };

  std::vector<Row> rows(int64_t stage) const;
  checkpoint::PickleId args(checkpoint::PickleGraph& graph) const;
  Status write_rank(const std::string& path, int64_t stage) const;
};

namespace sparse {

/// The dict under `key` of a dict, made where it is missing.
inline checkpoint::PickleId child(checkpoint::PickleGraph& graph, checkpoint::PickleId dict,
                                  const std::string& key) {
  if (const auto found = graph.find(dict, key)) return *found;
  const checkpoint::PickleId made = graph.add_dict();
  const checkpoint::PickleId name = graph.add_string(key);
  std::vector<checkpoint::PickleId>& pairs = graph.mutable_node(dict).children;
  pairs.insert(pairs.end(), {name, made});
  return made;
}

inline void set(checkpoint::PickleGraph& graph, checkpoint::PickleId dict, checkpoint::PickleId key,
                checkpoint::PickleId value) {
  std::vector<checkpoint::PickleId>& pairs = graph.mutable_node(dict).children;
  pairs.insert(pairs.end(), {key, value});
}

inline checkpoint::PickleId add_zeros(checkpoint::TorchFileContent& content, DType dtype,
                                      const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  const auto bytes = static_cast<uint64_t>(elements * dtype_size(dtype));
  return content.add_tensor(content.add_storage(dtype, bytes), shape);
}

}  // namespace sparse

inline std::vector<SparseGpt::Row> SparseGpt::rows(int64_t stage) const {
  const int64_t t = tensor_size, h = hidden;
  const int64_t padded = *model::padded_vocab_size(vocab, 128, t);
  std::vector<Row> all;
  if (stage == 0) {
    all.push_back({"language_model/embedding/word_embeddings/weight", {padded / t, h}});
    all.push_back({"language_model/embedding/position_embeddings/weight", {positions, h}});
  }
  for (int64_t i = 0; i < layers / pipeline_size; ++i) {
    const std::string layer = "language_model/encoder/layers." + std::to_string(i) + ".";
    const std::vector<std::pair<std::string, std::vector<int64_t>>> rows_of_layer = {
        {"input_layernorm.weight", {h}},
        {"input_layernorm.bias", {h}},
        {"self_attention.query_key_value.weight", {3 * h / t, h}},
        {"self_attention.query_key_value.bias", {3 * h / t}},
        {"self_attention.dense.weight", {h, h / t}},
        {"self_attention.dense.bias", {h}},
        {"post_attention_layernorm.weight", {h}},
        {"post_attention_layernorm.bias", {h}},
        {"mlp.dense_h_to_4h.weight", {4 * h / t, h}},
        {"mlp.dense_h_to_4h.bias", {4 * h / t}},
        {"mlp.dense_4h_to_h.weight", {h, 4 * h / t}},
        {"mlp.dense_4h_to_h.bias", {h}}};
    for (const auto& [name, shape] : rows_of_layer) all.push_back({layer + name, shape});
  }
  if (stage == pipeline_size - 1) {
    all.push_back({"language_model/encoder/final_layernorm.weight", {h}});
    all.push_back({"language_model/encoder/final_layernorm.bias", {h}});
    if (pipeline_size > 1) all.push_back({"word_embeddings_for_head/weight", {padded / t, h}});
  }
  return all;
}

inline checkpoint::PickleId SparseGpt::args(checkpoint::PickleGraph& graph) const {
  const checkpoint::PickleId fields = graph.add_dict();
  const std::initializer_list<std::pair<const char*, int64_t>> values = {
      {"num_layers", layers},
      {"hidden_size", hidden},
      {"num_attention_heads", heads},
      {"max_position_embeddings", positions},
      {"seq_length", positions},
      {"tensor_model_parallel_size", tensor_size},
      {"pipeline_model_parallel_size", pipeline_size}};
  for (const auto& [name, value] : values) {
    const checkpoint::PickleId key = graph.add_string(name);
    sparse::set(graph, fields, key, graph.add_int(value));
  }
  const checkpoint::PickleId object =
      graph.add_call(checkpoint::PickleCallForm::kNewObj, graph.add_global("argparse", "Namespace"),
                     graph.add_tuple({}));
  graph.mutable_call(object).states.push_back(fields);
  return object;
}

inline Status SparseGpt::write_rank(const std::string& path, int64_t stage) const {
  checkpoint::TorchFileContent content;
  checkpoint::PickleGraph& graph = content.graph();
  content.root = graph.add_dict();
  const auto set = [&](checkpoint::PickleId dict, const char* key, checkpoint::PickleId value) {
    const checkpoint::PickleId name = graph.add_string(key);
    sparse::set(graph, dict, name, value);
  };
  set(content.root, "args", args(graph));
  set(content.root, "checkpoint_version", graph.add_float(3.0));
  set(content.root, "iteration", graph.add_int(100));
  const std::vector<Row> parameters = rows(stage);
  const checkpoint::PickleId model = sparse::child(graph, content.root, "model");
  for (const Row& row : parameters) {
    checkpoint::PickleId dict = model;
    size_t begin = 0;
    for (size_t end; (end = row.name.find('/', begin)) != std::string::npos; begin = end + 1) {
      dict = sparse::child(graph, dict, row.name.substr(begin, end - begin));
    }
    const checkpoint::PickleId tensor =
        sparse::add_zeros(content, has_optimizer ? DType::kFloat16 : DType::kFloat32, row.shape);
    set(dict, row.name.substr(begin).c_str(), tensor);
  }
  if (has_optimizer) {
    const checkpoint::PickleId outer = sparse::child(graph, content.root, "optimizer");
    const checkpoint::PickleId inner = sparse::child(graph, outer, "optimizer");
    const checkpoint::PickleId state = sparse::child(graph, inner, "state");
    std::vector<checkpoint::PickleId> groups, masters;
    int64_t id = 0;
    for (const bool decays : {true, false}) {
      std::vector<checkpoint::PickleId> ids, group_masters;
      for (const Row& row : parameters) {
        if ((row.shape.size() > 1) != decays) continue;
        const checkpoint::PickleId moments = graph.add_dict();
        set(moments, "exp_avg", sparse::add_zeros(content, DType::kFloat32, row.shape));
        set(moments, "exp_avg_sq", sparse::add_zeros(content, DType::kFloat32, row.shape));
        const checkpoint::PickleId key = graph.add_int(id);
        sparse::set(graph, state, key, moments);
        ids.push_back(graph.add_int(id++));
        group_masters.push_back(sparse::add_zeros(content, DType::kFloat32, row.shape));
      }
      const checkpoint::PickleId group = graph.add_dict();
      set(group, "wd_mult", graph.add_float(decays ? 1.0 : 0.0));
      set(group, "params", graph.add_list(ids));
      groups.push_back(group);
      masters.push_back(graph.add_list(group_masters));
    }
    set(inner, "param_groups", graph.add_list(groups));
    set(outer, "fp32_from_fp16_params", graph.add_list(masters));
  }
  MEG_ASSIGN_OR_RETURN(checkpoint::TorchFileLayout layout,
                       checkpoint::lay_out(content, "model_optim_rng"));
  MEG_ASSIGN_OR_RETURN(checkpoint::TorchFileWriter writer,
                       checkpoint::TorchFileWriter::create(path, content, std::move(layout)));
  for (size_t i = 0; i < content.storages().size(); ++i) {
    writer.set_crc(static_cast<int>(i), io::crc32_of_zeros(content.storages()[i].bytes));
  }
  return writer.finish();
}

inline Status SparseGpt::write(const std::string& root) const {
  for (int64_t p = 0; p < pipeline_size; ++p) {
    for (int64_t t = 0; t < tensor_size; ++t) {
      const std::string folder = root + "/" + checkpoint::iteration_folder_name(100) + "/" +
                                 checkpoint::rank_folder_name(t, p, pipeline_size);
      std::filesystem::create_directories(folder);
      MEG_RETURN_IF_ERROR(write_rank(folder + "/model_optim_rng.pt", p));
    }
  }
  return checkpoint::write_tracker(root, 100);
}

}  // namespace meg::test
