#include "libmeg/samples/cache/internal/index_description.h"

#include <fmt/format.h>

#include "libmeg/samples/cache/internal/numpy_array_text.h"
#include "libmeg/text/json/json_text.h"

// Megatron finds a cache by the MD5 of this text, so every byte of it counts: the order of the keys
// is the order in which each revision puts them into its dictionary, numbers are written as
// Python's int or float, and a key that a revision does not know must be missing. Golden files of
// each revision hold it in the tests.

namespace meg::samples {
namespace {

std::string legacy_text(const GptDescription& description) {
  return fmt::format(
      "GPT Dataset\n\nData prefix {}\nDataset name {}\nNumber of samples {}\nSequence length {}\n"
      "Random seed {}\nSplit {}\n",
      description.prefix, split_name(description.split), description.samples.value_or(0),
      description.sequence_length, description.seed,
      description.weights.has_value() ? description.weights->text() : "None");
}

std::string legacy_text(const BlendDescription& description) {
  std::string text = "Blendable dataset\n\nDatasets:\n";
  for (const GptDescription& dataset : description.datasets) text += legacy_text(dataset) + "\n\n";
  return text + fmt::format("Weights: {}\nSize: {}\n", numpy_array_text(description.weights),
                            description.size.value_or(0));
}

void number_or_null(std::optional<int64_t> number, text::JsonText& json) {
  if (number.has_value()) return json.number(*number);
  json.literal("null");
}

void write_split(const GptDescription& description, text::JsonText& json) {
  json.key("split");
  if (description.weights.has_value()) return json.string(description.weights->text());
  json.literal("null");
}

void write_matrix(const GptDescription& description, text::JsonText& json) {
  json.key("split_matrix");
  if (!description.weights.has_value()) return json.literal("null");
  json.begin_array();
  const auto matrix = description.weights->matrix();
  for (const Split split : kSplits) {
    const auto& bounds = matrix[split_number(split)];
    if (!bounds.has_value()) {
      json.literal("null");
      continue;
    }
    json.begin_array();
    // Megatron's sums begin with an integer.
    if (split == Split::kTrain) {
      json.number(int64_t{0});
    } else {
      json.number(bounds->first);
    }
    json.number(bounds->second);
    json.end_array();
  }
  json.end_array();
}

void write_tokenizer(const megatron::TokenizerIdentity& tokenizer, text::JsonText& json) {
  json.key("tokenizer");
  json.begin_object();
  json.key("class");
  json.string(tokenizer.class_name);
  json.key("tokenizer_path");
  if (const auto* path = std::get_if<std::string>(&tokenizer.tokenizer_path)) {
    json.string(*path);
  } else if (std::holds_alternative<std::monostate>(tokenizer.tokenizer_path)) {
    json.literal("null");
  } else {
    json.begin_array();
    for (const auto& file : std::get<2>(tokenizer.tokenizer_path)) {
      file.has_value() ? json.string(*file) : json.literal("null");
    }
    json.end_array();
  }
  for (const auto& [name, value] : tokenizer.options) {
    json.key(name);
    json.string(value);
  }
  json.end_object();
}

void write(const GptDescription& description, megatron::IndexCacheForm form, text::JsonText& json) {
  json.begin_object();
  json.key("class");
  json.string("GPTDataset");
  json.key(form == megatron::IndexCacheForm::kDatasetPath ? "dataset_path" : "path_prefix");
  json.string(description.prefix);
  json.key("num_samples");
  number_or_null(description.samples, json);
  json.key("index_split");
  json.string(split_name(description.split));
  // The key's place moved when the matrix came; the text of older caches has it here.
  if (form == megatron::IndexCacheForm::kPathPrefix) write_split(description, json);
  json.key("random_seed");
  json.number(static_cast<int64_t>(description.seed));
  json.key("sequence_length");
  json.number(description.sequence_length);
  if (form != megatron::IndexCacheForm::kPathPrefix) {
    write_split(description, json);
    write_matrix(description, json);
  }
  if (form == megatron::IndexCacheForm::kDatasetPath) write_tokenizer(description.tokenizer, json);
  json.end_object();
}

void write_weights(const BlendDescription& description, text::JsonText& json) {
  json.key("weights");
  json.begin_array();
  for (const double weight : description.weights) {
    if (description.size.has_value()) {
      json.number(weight);
    } else {
      // Without a size the weights are the datasets' sizes, which are integers.
      json.number(static_cast<int64_t>(weight));
    }
  }
  json.end_array();
}

}  // namespace

std::string gpt_description(const GptDescription& description,
                            const megatron::MegatronVersion& version) {
  const megatron::IndexCacheForm form = version.index_cache_form;
  if (form == megatron::IndexCacheForm::kBesideData) return {};
  if (form == megatron::IndexCacheForm::kLegacy) return legacy_text(description);
  text::JsonText json;
  write(description, form, json);
  return json.text();
}

std::string blend_description(const BlendDescription& description,
                              const megatron::MegatronVersion& version) {
  const megatron::IndexCacheForm form = version.index_cache_form;
  if (form == megatron::IndexCacheForm::kBesideData) return {};
  if (form == megatron::IndexCacheForm::kLegacy) return legacy_text(description);
  text::JsonText json;
  json.begin_object();
  json.key("class");
  json.string("BlendedDataset");
  json.key("datasets");
  json.begin_array();
  for (const GptDescription& dataset : description.datasets) write(dataset, form, json);
  json.end_array();
  if (version.split_in_cache_name) {
    json.key("split");
    json.string(split_name(description.split));
  }
  write_weights(description, json);
  json.key("size");
  number_or_null(description.size, json);
  if (version.renormalize_in_description) {
    json.key("renormalize_blend_weights");
    json.literal("false");
  }
  json.end_object();
  return json.text();
}

}  // namespace meg::samples
