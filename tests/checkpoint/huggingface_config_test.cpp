#include "libmeg/checkpoint/dialects/huggingface/huggingface_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace meg::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Keys and their JSON values.
using Keys = std::map<std::string, std::string>;

std::string text_of(const Keys& keys) {
  std::string json;
  for (const auto& [key, value] : keys) {
    json += (json.empty() ? "\"" : ",\"") + key + "\":" + value;
  }
  return "{" + json + "}";
}

Keys llama() {
  return {{"model_type", R"("llama")"},
          {"architectures", R"(["LlamaForCausalLM"])"},
          {"vocab_size", "300"},
          {"hidden_size", "64"},
          {"intermediate_size", "160"},
          {"num_hidden_layers", "4"},
          {"num_attention_heads", "4"},
          {"num_key_value_heads", "2"},
          {"max_position_embeddings", "8192"},
          {"rms_norm_eps", "1e-05"},
          {"rope_theta", "500000.0"},
          {"use_cache", "true"}};
}

Keys gpt2() {
  return {{"model_type", R"("gpt2")"},
          {"architectures", R"(["GPT2LMHeadModel"])"},
          {"vocab_size", "300"},
          {"n_embd", "64"},
          {"n_layer", "4"},
          {"n_head", "4"},
          {"n_positions", "64"},
          {"n_inner", "null"},
          {"layer_norm_epsilon", "1e-05"}};
}

Keys other(const std::string& model_type, const std::string& class_name) {
  Keys keys = llama();
  keys["model_type"] = '"' + model_type + '"';
  keys["architectures"] = "[\"" + class_name + "\"]";
  if (model_type == "mistral") keys["sliding_window"] = "null";
  return keys;
}

Result<HuggingFaceConfig> read(const Keys& keys) {
  return read_huggingface_config(text_of(keys), "config.json");
}

megatron::FieldLookup lookup(const HuggingFaceConfig& config) {
  return [&config](std::string_view name) { return config.field(name); };
}

Keys with(Keys keys, const std::string& key, const std::string& value) {
  keys[key] = value;
  return keys;
}

Keys without(Keys keys, const std::string& key) {
  keys.erase(key);
  return keys;
}

TEST(HuggingFaceConfig, LlamaBecomesMegatronsArgs) {
  const auto config = read(llama());
  ASSERT_TRUE(config.has_value()) << config.error().message();
  EXPECT_EQ(config->vocab_size, 300);
  EXPECT_THAT(config->notes, IsEmpty());
  const auto model = model::GptConfig::from_fields(lookup(*config));
  ASSERT_TRUE(model.has_value()) << model.error().message();
  EXPECT_EQ(model->num_layers, 4);
  EXPECT_EQ(model->ffn_hidden_size, 160);
  EXPECT_EQ(model->kv_channels, 16);
  EXPECT_EQ(model->num_query_groups, 2);
  EXPECT_TRUE(model->swiglu && model->gated_linear_unit);
  EXPECT_FALSE(model->add_bias_linear || model->add_qkv_bias || model->qk_layernorm);
  EXPECT_TRUE(model->untie_embeddings_and_output_weights);
  EXPECT_EQ(model->normalization, "RMSNorm");
  EXPECT_EQ(model->position_embedding_type, "rope");
  EXPECT_EQ(config->field("rotary_base"), megatron::FieldValue(int64_t{500000}));
  EXPECT_EQ(config->field("norm_epsilon"), megatron::FieldValue(1e-5));
  EXPECT_EQ(config->field("use_rope_scaling"), megatron::FieldValue(false));
}

TEST(HuggingFaceConfig, Gpt2BecomesMegatronsArgs) {
  const auto config = read(gpt2());
  ASSERT_TRUE(config.has_value()) << config.error().message();
  const auto model = model::GptConfig::from_fields(lookup(*config));
  ASSERT_TRUE(model.has_value()) << model.error().message();
  EXPECT_EQ(model->ffn_hidden_size, 256);
  EXPECT_TRUE(model->add_bias_linear);
  EXPECT_FALSE(model->untie_embeddings_and_output_weights);
  EXPECT_EQ(model->position_embedding_type, "learned_absolute");
  EXPECT_EQ(config->field("bias_gelu_fusion"), megatron::FieldValue(true));
  const auto erf = read(with(gpt2(), "activation_function", R"("gelu")"));
  ASSERT_TRUE(erf.has_value()) << erf.error().message();
  EXPECT_EQ(erf->field("bias_gelu_fusion"), megatron::FieldValue(false));
}

TEST(HuggingFaceConfig, MissingKeysMeanWhatTransformersTakes) {
  Keys keys = llama();
  for (const char* key : {"rms_norm_eps", "rope_theta", "num_key_value_heads", "architectures"}) {
    keys.erase(key);
  }
  const auto config = read(keys);
  ASSERT_TRUE(config.has_value()) << config.error().message();
  EXPECT_EQ(config->field("norm_epsilon"), megatron::FieldValue(1e-6));
  EXPECT_EQ(config->field("rotary_base"), megatron::FieldValue(int64_t{10000}));
  EXPECT_EQ(model::GptConfig::from_fields(lookup(*config))->num_query_groups, 4);
  const auto qwen3 = read(other("qwen3", "Qwen3ForCausalLM"));
  EXPECT_EQ(qwen3->field("kv_channels"), megatron::FieldValue(int64_t{128}));
  EXPECT_EQ(qwen3->field("qk_layernorm"), megatron::FieldValue(true));
  EXPECT_EQ(read(other("qwen2", "Qwen2ForCausalLM"))->field("add_qkv_bias"),
            megatron::FieldValue(true));
}

TEST(HuggingFaceConfig, EachClassHasItsOwnDefaults) {
  Keys mixtral = other("mixtral", "MixtralForCausalLM");
  mixtral["num_local_experts"] = "4";
  for (const char* key : {"rms_norm_eps", "rope_theta", "num_key_value_heads"}) mixtral.erase(key);
  mixtral["num_attention_heads"] = "8";
  const auto config = read(mixtral);
  ASSERT_TRUE(config.has_value()) << config.error().message();
  EXPECT_EQ(config->field("norm_epsilon"), megatron::FieldValue(1e-5));
  EXPECT_EQ(config->field("rotary_base"), megatron::FieldValue(int64_t{1000000}));
  EXPECT_EQ(config->field("num_query_groups"), megatron::FieldValue(int64_t{8}));
  EXPECT_EQ(config->field("moe_router_topk"), megatron::FieldValue(int64_t{2}));
  EXPECT_EQ(config->field("window_size"), std::nullopt);
  const auto scaled = read(with(mixtral, "rope_scaling", R"({"type":"linear","factor":2})"));
  EXPECT_EQ(scaled->field("rotary_base"), megatron::FieldValue(int64_t{1000000}));
  Keys qwen2 = other("qwen2", "Qwen2ForCausalLM");
  qwen2["num_key_value_heads"] = "null";
  EXPECT_EQ(model::GptConfig::from_fields(lookup(*read(qwen2)))->num_query_groups, 4);
}

TEST(HuggingFaceConfig, AWindowOfAttentionIsKept) {
  const Keys mistral = without(other("mistral", "MistralForCausalLM"), "sliding_window");
  const Keys qwen2 = with(other("qwen2", "Qwen2ForCausalLM"), "use_sliding_window", "true");
  const std::tuple<Keys, int64_t, std::string> cases[] = {
      {mistral, 4096, "mistral"},
      {with(mistral, "sliding_window", "16"), 16, "mistral"},
      {with(with(qwen2, "sliding_window", "8"), "max_window_layers", "0"), 8, "qwen2"},
      {with(with(qwen2, "sliding_window", "8"), "max_window_layers", "2"), 8, "qwen2"}};
  for (const auto& [keys, tokens, written_type] : cases) {
    const auto config = read(keys);
    ASSERT_TRUE(config.has_value()) << config.error().message();
    auto model = model::GptConfig::from_fields(lookup(*config));
    ASSERT_TRUE(model.has_value()) << model.error().message();
    EXPECT_EQ(model->attention_window, tokens);
    EXPECT_EQ(model->most_positions(), std::nullopt);
    EXPECT_EQ(model->max_position_embeddings, 8192);
    model->padded_vocab_size = config->vocab_size;
    const auto text = write_huggingface_config(*model, lookup(*config), DType::kFloat32, {});
    ASSERT_TRUE(text.has_value()) << text.error().message();
    EXPECT_EQ(text->architecture.model_type, written_type);
    const auto again = read_huggingface_config(text->json, "written");
    ASSERT_TRUE(again.has_value()) << again.error().message() << text->json;
    for (const char* name : {"window_size", "window_attn_skip_freq"}) {
      EXPECT_EQ(again->field(name), config->field(name)) << text->json;
    }
  }
  // No layer is beyond the 28 that have none, and a window that is not used is none.
  EXPECT_EQ(read(qwen2)->field("window_size"), std::nullopt);
  EXPECT_EQ(read(with(qwen2, "use_sliding_window", "false"))->field("window_size"), std::nullopt);
}

TEST(HuggingFaceConfig, KeepsKeysThatNoNumberDependsOn) {
  const std::string json =
      R"({"model_type":"llama","hidden_size":64,"bos_token_id":1,"eos_token_id":[2,7],)"
      R"("pad_token_id":null,"use_cache":true,"torch_dtype":"float16","is_causal":true})";
  const auto kept = kept_keys(json, "config.json");
  ASSERT_TRUE(kept.has_value()) << kept.error().message();
  const KeptKeys expected = {{"bos_token_id", "1"},
                             {"eos_token_id", "[2,7]"},
                             {"model_type", "\"llama\""},
                             {"pad_token_id", "null"},
                             {"use_cache", "true"}};
  EXPECT_EQ(*kept, expected);
  const auto config = read(llama());
  auto model = model::GptConfig::from_fields(lookup(*config));
  model->padded_vocab_size = config->vocab_size;
  const auto text = write_huggingface_config(*model, lookup(*config), DType::kFloat32, *kept);
  ASSERT_TRUE(text.has_value()) << text.error().message();
  EXPECT_THAT(text->json, HasSubstr(R"("eos_token_id": [2,7])"));
  EXPECT_THAT(text->json, Not(HasSubstr("compression_config")));
  EXPECT_THAT(text->json, Not(HasSubstr("quantization_config")));
  // Of classes that compute the same the one that it came as.
  const auto same = write_huggingface_config(*model, lookup(*config), DType::kFloat32,
                                             {{"model_type", R"("mistral")"}});
  EXPECT_EQ(same->architecture.model_type, "mistral");
  const auto other_model = write_huggingface_config(*model, lookup(*config), DType::kFloat32,
                                                    {{"model_type", R"("qwen2")"}});
  EXPECT_EQ(other_model->architecture.model_type, "llama");
}

TEST(HuggingFaceConfig, BothSpellingsOfRotaryScalingMeanTheSame) {
  const std::string numbers = R"("factor":32.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
                              R"("original_max_position_embeddings":8192)";
  const auto old = read(with(llama(), "rope_scaling", R"({"rope_type":"llama3",)" + numbers + "}"));
  ASSERT_TRUE(old.has_value()) << old.error().message();
  const auto young = read(with(without(llama(), "rope_theta"), "rope_parameters",
                               R"({"rope_theta":500000.0,"rope_type":"llama3",)" + numbers + "}"));
  ASSERT_TRUE(young.has_value()) << young.error().message();
  EXPECT_EQ(old->fields, young->fields);
  EXPECT_EQ(old->field("rope_scaling_factor"), megatron::FieldValue(32.0));
  EXPECT_EQ(old->field("use_rope_scaling"), megatron::FieldValue(true));
  const auto linear = read(with(llama(), "rope_scaling", R"({"type":"linear","factor":4})"));
  ASSERT_TRUE(linear.has_value()) << linear.error().message();
  EXPECT_EQ(linear->field("rotary_seq_len_interpolation_factor"), megatron::FieldValue(int64_t{4}));
}

TEST(HuggingFaceConfig, RefusesByNameWhatMegatronWouldComputeOtherwise) {
  const Keys mistral = other("mistral", "MistralForCausalLM");
  const Keys qwen2 = other("qwen2", "Qwen2ForCausalLM");
  const std::tuple<Keys, std::string, std::string> cases[] = {
      {with(llama(), "model_type", R"("bert")"), "model_type", "found \"bert\""},
      {with(llama(), "model_type", R"("gpt_neo")"), "model_type", "found \"gpt_neo\""},
      {with(llama(), "architectures", R"(["LlamaForSequenceClassification"])"), "architectures",
       "expected LlamaForCausalLM"},
      {with(llama(), "architectures", R"(["MyForCausalLM"])"), "architectures", "MyForCausalLM"},
      {with(llama(), "hidden_act", R"("gelu")"), "hidden_act", "expected \"silu\", found \"gelu\""},
      {with(llama(), "attention_bias", "true"), "attention_bias", "expected False, found true"},
      {with(llama(), "mlp_bias", "true"), "mlp_bias", "expected False"},
      {with(llama(), "partial_rotary_factor", "0.5"), "partial_rotary_factor", "found 0.5"},
      {with(llama(), "quantization_config", R"({"bits":4})"), "quantization_config", "an object"},
      {with(llama(), "rope_scaling", R"({"type":"dynamic","factor":2.0})"), "rope_scaling",
       "rope_type: expected default, linear or llama3, found \"dynamic\""},
      {with(llama(), "rope_scaling", R"({"rope_type":"yarn","factor":2.0})"), "rope_scaling",
       "found \"yarn\""},
      {with(llama(), "rope_parameters", R"({"rope_theta":500000,"partial_rotary_factor":0.25})"),
       "rope_parameters", "partial_rotary_factor: expected 1, found 0.25"},
      {with(llama(), "rope_scaling",
            R"({"rope_type":"llama3","factor":8,"low_freq_factor":2,"high_freq_factor":4})"),
       "rope_scaling", "low_freq_factor: expected 1, found 2"},
      {with(with(llama(), "max_position_embeddings", "4096"), "rope_scaling",
            R"({"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4})"),
       "rope_scaling", "original_max_position_embeddings: expected 8192, found 4096"},
      {with(llama(), "rope_scaling", R"({"type":"linear","factor":1.5})"), "rope_scaling",
       "expected an integer, found 1.5"},
      {with(mistral, "sliding_window", "0"), "sliding_window", "a number of tokens, found 0"},
      {with(llama(), "sliding_window", "4096"), "sliding_window",
       "at least max_position_embeddings 8192 for LlamaForCausalLM, found 4096"},
      {with(with(other("mixtral", "MixtralForCausalLM"), "sliding_window", "64"), "layer_types",
            R"(["full_attention","sliding_attention","full_attention","full_attention"])"),
       "layer_types", "expected sliding_attention, found \"full_attention\""},
      {with(qwen2, "layer_types",
            R"(["full_attention","sliding_attention","full_attention","full_attention"])"),
       "layer_types", "found \"sliding_attention\""},
      {with(qwen2, "layer_types", R"(["full_attention"])"), "layer_types", "a list of 4 layers"},
      {with(qwen2, "layer_types", R"(["chunked_attention"])"), "layer_types", "chunked_attention"},
      {with(mistral, "layer_types", "null"), "layer_types",
       "expected none for MistralForCausalLM, found null"},
      {with(llama(), "is_causal", "false"), "is_causal", "expected True, found false"},
      {with(gpt2(), "is_causal", "null"), "is_causal", "expected True, found null"},
      {with(llama(), "attention_chunk_size", "16"), "attention_chunk_size", "found 16"},
      {with(llama(), "per_layer_config", R"({"0":{"num_attention_heads":2}})"), "per_layer_config",
       "an object"},
      {with(llama(), "kv_sharing_modes", R"(["reuse"])"), "kv_sharing_modes", "a list"},
      {with(llama(), "transformers_weights", R"("other.safetensors")"), "transformers_weights",
       "other.safetensors"},
      {with(llama(), "text_config", R"({"hidden_size":8})"), "text_config", "an object"},
      {with(llama(), "tie_word_embeddings", "null"), "tie_word_embeddings", "found null"},
      {with(llama(), "rms_norm_eps", "null"), "rms_norm_eps", "found null"},
      {with(other("qwen2_moe", "Qwen2MoeForCausalLM"), "head_dim", "null"), "head_dim",
       "found null"},
      {with(llama(), "rope_parameters", R"({"full_attention":{"rope_theta":7.0}})"),
       "rope_parameters", "full_attention\": expected a value, found an object"},
      {with(llama(), "rope_scaling", R"({"rope_type":null,"type":"linear","factor":2})"),
       "rope_scaling", "rope_type\": expected a value, found null"},
      {with(with(llama(), "original_max_position_embeddings", "4096"), "rope_scaling",
            R"({"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,)"
            R"("original_max_position_embeddings":8192})"),
       "rope_scaling", "expected 8192 beside it, found 4096"},
      {with(gpt2(), "hidden_size", "null"), "hidden_size", "found null"},
      {with(gpt2(), "activation_function", R"("relu")"), "activation_function", "found \"relu\""},
      {with(gpt2(), "scale_attn_by_inverse_layer_idx", "true"), "scale_attn_by_inverse_layer_idx",
       "expected False"},
      {with(gpt2(), "scale_attn_weights", "false"), "scale_attn_weights", "expected True"},
      {with(gpt2(), "add_cross_attention", "true"), "add_cross_attention", "expected False"}};
  for (const auto& [keys, key, message] : cases) {
    const auto config = read(keys);
    ASSERT_FALSE(config.has_value()) << key << " " << message;
    EXPECT_EQ(config.error().code(), StatusCode::kUnsupported) << config.error().message();
    EXPECT_THAT(config.error().message(), HasSubstr("config.json: " + key + ": "));
    EXPECT_THAT(config.error().message(), HasSubstr(message));
  }
}

TEST(HuggingFaceConfig, RefusesDamage) {
  const std::pair<std::string, std::string> cases[] = {
      {"{", "config.json: expected JSON"},
      {"[]", "expected a JSON object, found a list"},
      {R"({"model_type":"llama","model_type":"gpt2"})", "\"model_type\": expected it once"},
      {"{}", "expected model_type, found none"},
      {text_of(without(llama(), "hidden_size")), "expected hidden_size, found none"},
      {text_of(with(llama(), "hidden_size", "null")), "expected hidden_size, found none"},
      {text_of(with(llama(), "hidden_size", "-4")), "hidden_size: expected a size from 1 to"},
      {text_of(with(llama(), "hidden_size", "1e3")), "hidden_size: expected a size from 1 to"},
      {text_of(with(llama(), "hidden_size", "99999999999")), "expected a size from 1 to"},
      {text_of(with(llama(), "rms_norm_eps", "\"x\"")), "rms_norm_eps: expected a number"},
      {text_of(with(llama(), "rope_theta", "0")), "rope_theta: expected a number above 0"},
      {text_of(with(llama(), "rope_theta", "null")), "rope_theta: expected a number above 0"},
      {text_of(with(gpt2(), "hidden_size", "128")), "hidden_size: expected 64 as in n_embd"},
      {text_of(with(llama(), "rope_parameters", R"({"rope_theta":7.0})")),
       "rope_parameters: expected the same as in rope_theta"},
      {text_of(with(llama(), "rope_scaling", R"({"type":"linear"})")),
       "expected factor, found none"}};
  for (const auto& [json, message] : cases) {
    const auto config = read_huggingface_config(json, "config.json");
    ASSERT_FALSE(config.has_value()) << json;
    EXPECT_EQ(config.error().code(), StatusCode::kCorruption) << config.error().message();
    EXPECT_THAT(config.error().message(), HasSubstr(message));
    EXPECT_THAT(config.error().message(), Not(HasSubstr("\n")));
  }
}

TEST(HuggingFaceConfig, NamesKeysThatItDoesNotRead) {
  const auto config = read(with(llama(), "unsloth_fixed", "true"));
  ASSERT_TRUE(config.has_value()) << config.error().message();
  ASSERT_EQ(config->notes.size(), 1);
  EXPECT_THAT(config->notes[0], HasSubstr("\"unsloth_fixed\""));
}

TEST(HuggingFaceConfig, SaysThatCodeOfTheFolderIsNotRun) {
  const auto config = read(with(llama(), "auto_map", R"({"AutoModelForCausalLM":"my.Model"})"));
  ASSERT_TRUE(config.has_value()) << config.error().message();
  ASSERT_EQ(config->notes.size(), 1);
  EXPECT_THAT(config->notes[0], HasSubstr("auto_map names Python code"));
}

TEST(HuggingFaceConfig, SaysThatTwoDropoutsBecomeOne) {
  const auto config = read(with(gpt2(), "embd_pdrop", "0.0"));
  ASSERT_TRUE(config.has_value()) << config.error().message();
  ASSERT_EQ(config->notes.size(), 1);
  EXPECT_THAT(config->notes[0], HasSubstr("embd_pdrop 0"));
}

TEST(HuggingFaceConfig, WhatIsWrittenIsReadBackAsTheSameArgs) {
  Keys scaled = llama();
  scaled["rope_scaling"] =
      R"({"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
      R"("original_max_position_embeddings":8192})";
  const std::pair<Keys, std::string> cases[] = {
      {gpt2(), "gpt2"},
      {with(gpt2(), "activation_function", R"("gelu")"), "gpt2"},
      {llama(), "llama"},
      {scaled, "llama"},
      {with(llama(), "rope_scaling", R"({"type":"linear","factor":4})"), "llama"},
      {with(llama(), "tie_word_embeddings", "true"), "llama"},
      {with(llama(), "head_dim", "24"), "llama"},
      {other("mistral", "MistralForCausalLM"), "llama"},
      {other("qwen2", "Qwen2ForCausalLM"), "qwen2"},
      {other("qwen3", "Qwen3ForCausalLM"), "qwen3"}};
  for (const auto& [keys, written_type] : cases) {
    const auto first = read(keys);
    ASSERT_TRUE(first.has_value()) << first.error().message();
    auto model = model::GptConfig::from_fields(lookup(*first));
    model->padded_vocab_size = first->vocab_size;
    const auto text = write_huggingface_config(*model, lookup(*first), DType::kBFloat16, {});
    ASSERT_TRUE(text.has_value()) << text.error().message();
    EXPECT_EQ(text->architecture.model_type, written_type);
    EXPECT_THAT(text->json, HasSubstr(R"("torch_dtype": "bfloat16")"));
    const auto second = read_huggingface_config(text->json, "written");
    ASSERT_TRUE(second.has_value()) << second.error().message() << text->json;
    EXPECT_THAT(second->notes, IsEmpty());
    for (const auto& [name, value] : first->fields) {
      EXPECT_TRUE(megatron::same_field(second->field(name).value_or(megatron::FieldValue()), value))
          << name << " " << text->json;
    }
    EXPECT_EQ(second->vocab_size, first->vocab_size);
  }
}

TEST(HuggingFaceConfig, NamesTheArgThatTransformersCannotDo) {
  const std::tuple<std::string, megatron::FieldValue, std::string> cases[] = {
      {"normalization", "LayerNorm", "normalization: expected \"RMSNorm\" for LlamaForCausalLM"},
      {"add_bias_linear", true, "add_bias_linear: expected False"},
      {"swiglu", false, "swiglu: expected True"},
      {"rotary_interleaved", true, "rotary_interleaved: expected False"},
      {"position_embedding_type", "none",
       "position_embedding_type: expected \"rope\" for LlamaForCausalLM"},
      {"num_experts", int64_t{8}, "moe_router_topk: expected a number, found None"}};
  const auto config = read(llama());
  for (const auto& [name, value, message] : cases) {
    const megatron::FieldLookup changed = [&, name = name, value = value](std::string_view asked) {
      return asked == name ? std::optional<megatron::FieldValue>(value) : config->field(asked);
    };
    const auto model = model::GptConfig::from_fields(changed);
    ASSERT_TRUE(model.has_value()) << model.error().message();
    const auto text = write_huggingface_config(*model, changed, DType::kFloat32, {});
    ASSERT_FALSE(text.has_value()) << name;
    EXPECT_EQ(text.error().code(), StatusCode::kUnsupported);
    EXPECT_THAT(text.error().message(), HasSubstr(message));
  }
}

TEST(HuggingFaceConfig, ChoosesAnotherClassOrNormsForArgsThatLlamaCannotHave) {
  const auto config = read(llama());
  const auto written = [&](std::string_view name, const megatron::FieldValue& value) {
    const megatron::FieldLookup changed = [&](std::string_view asked) {
      return asked == name ? std::optional<megatron::FieldValue>(value) : config->field(asked);
    };
    const auto model = model::GptConfig::from_fields(changed);
    return write_huggingface_config(*model, changed, DType::kFloat32, {});
  };
  const auto partly_rotated = written("rotary_percent", 0.5);
  ASSERT_TRUE(partly_rotated.has_value()) << partly_rotated.error().message();
  EXPECT_EQ(partly_rotated->architecture.class_name, "Phi3ForCausalLM");
  EXPECT_FALSE(partly_rotated->adds_one_to_norms);
  const auto less_one = written("apply_layernorm_1p", true);
  ASSERT_TRUE(less_one.has_value()) << less_one.error().message();
  EXPECT_EQ(less_one->architecture.class_name, "LlamaForCausalLM");
  EXPECT_TRUE(less_one->adds_one_to_norms);
}

}  // namespace
}  // namespace meg::checkpoint
