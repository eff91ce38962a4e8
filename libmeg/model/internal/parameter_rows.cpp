#include "libmeg/model/internal/parameter_rows.h"

namespace meg::model {
namespace {

constexpr ParameterRow kNoBias = {Partition::kReplicated, Presence::kAlways, {}};
constexpr ParameterRow kNorm = {
    Partition::kReplicated, Presence::kAlways, {Extent::kHidden, Extent::kNone}};
constexpr ParameterRow kNormBias = {
    Partition::kReplicated, Presence::kNormBias, {Extent::kHidden, Extent::kNone}};
constexpr ParameterRow kPreNorm = {
    Partition::kReplicated, Presence::kPreNorm, {Extent::kHidden, Extent::kNone}};
constexpr ParameterRow kPreNormBias = {
    Partition::kReplicated, Presence::kPreNormBias, {Extent::kHidden, Extent::kNone}};
constexpr ParameterRow kPostNorm = {
    Partition::kReplicated, Presence::kPostNorm, {Extent::kHidden, Extent::kNone}};
constexpr ParameterRow kPostNormBias = {
    Partition::kReplicated, Presence::kPostNormBias, {Extent::kHidden, Extent::kNone}};
constexpr ParameterRow kQueryNorm = {
    Partition::kReplicated, Presence::kQkNorm, {Extent::kQueryNorm, Extent::kNone}};
constexpr ParameterRow kQueryNormBias = {
    Partition::kReplicated, Presence::kQkNormBias, {Extent::kQueryNorm, Extent::kNone}};
constexpr ParameterRow kKeyNorm = {
    Partition::kReplicated, Presence::kQkNorm, {Extent::kKeyNorm, Extent::kNone}};
constexpr ParameterRow kKeyNormBias = {
    Partition::kReplicated, Presence::kQkNormBias, {Extent::kKeyNorm, Extent::kNone}};
constexpr ParameterRow kHiddenBias = {
    Partition::kReplicated, Presence::kLinearBias, {Extent::kHidden, Extent::kNone}};

/// Comes after the experts of a layer, whatever number of them it has: expert_order() in
/// parameter_table.cpp gives each expert four places and stays below 2^23.
constexpr int kBehindExperts = 1 << 24;

// Spellings stand in the order of NameFamily: legacy, old, flat, mcore, mcore (Transformer Engine),
// hybrid.
// The order of the rows is that of the whole model; within a layer each family has its own, by
// Spelling::order, which follows the order in which its modules are constructed: optimizer ids of
// checkpoints count by it.
constexpr ModuleRow kModules[] = {
    // ---- embedding
    {Placement::kEmbedding,
     false,
     {{{"language_model.embedding.word_embeddings.", 0},
       {"language_model.embedding.word_embeddings.", 0},
       {"word_embeddings.", 0},
       {"embedding.word_embeddings.", 0},
       {"embedding.word_embeddings.", 0},
       {"embedding.word_embeddings.", 0}}},
     "",
     {Partition::kVocabulary, Presence::kAlways, {Extent::kVocabulary, Extent::kHidden}},
     kNoBias},
    {Placement::kEmbedding,
     false,
     {{{"language_model.embedding.position_embeddings.", 1},
       {"language_model.embedding.position_embeddings.", 1},
       {"position_embeddings.", 1},
       {"embedding.position_embeddings.", 1},
       {"embedding.position_embeddings.", 1},
       {"embedding.position_embeddings.", 1}}},
     "",
     {Partition::kReplicated, Presence::kLearnedPositions, {Extent::kPositions, Extent::kHidden}},
     kNoBias},

    // ---- a layer
    {Placement::kLayer,
     false,
     {{{"language_model.encoder.layers.{}.input_layernorm.", 0},
       {"language_model.transformer.layers.{}.input_layernorm.", 0},
       {"transformer.layers.{}.input_layernorm.", 0},
       {"decoder.layers.{}.input_layernorm.", 0},
       {"decoder.layers.{}.self_attention.linear_qkv.layer_norm_", 1},
       {"decoder.layers.{}.self_attention.linear_qkv.layer_norm_", 1}}},
     "language_model.encoder.layers.{}.input_norm.",
     kPreNorm,
     kPreNormBias},
    // Before linear_proj, which is constructed next.
    {Placement::kLayer,
     false,
     {{{"", 0},
       {"", 0},
       {"", 0},
       {"decoder.layers.{}.self_attention.core_attention.", 1},
       {"decoder.layers.{}.self_attention.core_attention.", 0},
       {"decoder.layers.{}.self_attention.core_attention.", 0}}},
     "",
     {Partition::kRows, Presence::kSoftmaxOffset, {Extent::kHeads, Extent::kNone}},
     kNoBias,
     {},
     "softmax_offset"},
    {Placement::kLayer,
     true,
     {{{"language_model.encoder.layers.{}.self_attention.dense.", 2},
       {"language_model.transformer.layers.{}.attention.dense.", 2},
       {"transformer.layers.{}.attention.dense.", 2},
       {"decoder.layers.{}.self_attention.linear_proj.", 1},
       {"decoder.layers.{}.self_attention.linear_proj.", 0},
       {"decoder.layers.{}.self_attention.linear_proj.", 0}}},
     "",
     {Partition::kColumns, Presence::kAlways, {Extent::kHidden, Extent::kProjection}},
     kHiddenBias},
    // Megatron-Bridge's name: a norm of the module's output.
    {Placement::kLayer,
     false,
     {{{"", 0},
       {"", 0},
       {"", 0},
       {"decoder.layers.{}.self_attention.linear_proj.post_layernorm.", 1},
       {"decoder.layers.{}.self_attention.linear_proj.post_layernorm.", 0},
       {"decoder.layers.{}.self_attention.linear_proj.post_layernorm.", 0}}},
     "",
     kPostNorm,
     kPostNormBias},
    {Placement::kLayer,
     true,
     {{{"language_model.encoder.layers.{}.self_attention.query_key_value.", 1},
       {"language_model.transformer.layers.{}.attention.query_key_value.", 1},
       {"transformer.layers.{}.attention.query_key_value.", 1},
       {"decoder.layers.{}.self_attention.linear_qkv.", 2},
       {"decoder.layers.{}.self_attention.linear_qkv.", 2},
       {"decoder.layers.{}.self_attention.linear_qkv.", 2}}},
     "",
     {Partition::kQkv, Presence::kAlways, {Extent::kQkvRows, Extent::kHidden}},
     {Partition::kQkv, Presence::kQkvBias, {Extent::kQkvRows, Extent::kNone}}},
    {Placement::kLayer,
     false,
     {{{"", 0},
       {"", 0},
       {"", 0},
       {"decoder.layers.{}.self_attention.q_layernorm.", 3},
       {"decoder.layers.{}.self_attention.q_layernorm.", 3},
       {"decoder.layers.{}.self_attention.q_layernorm.", 3}}},
     "",
     kQueryNorm,
     kQueryNormBias},
    {Placement::kLayer,
     false,
     {{{"", 0},
       {"", 0},
       {"", 0},
       {"decoder.layers.{}.self_attention.k_layernorm.", 4},
       {"decoder.layers.{}.self_attention.k_layernorm.", 4},
       {"decoder.layers.{}.self_attention.k_layernorm.", 4}}},
     "",
     kKeyNorm,
     kKeyNormBias},
    {Placement::kLayer,
     false,
     {{{"language_model.encoder.layers.{}.post_attention_layernorm.", 3},
       {"language_model.transformer.layers.{}.post_attention_layernorm.", 3},
       {"transformer.layers.{}.post_attention_layernorm.", 3},
       {"decoder.layers.{}.pre_mlp_layernorm.", 5},
       {"decoder.layers.{}.mlp.linear_fc1.layer_norm_", 5},
       {"decoder.layers.{}.mlp.linear_fc1.layer_norm_", 5}}},
     "language_model.encoder.layers.{}.post_attention_norm.",
     kPreNorm,
     kPreNormBias},
    {Placement::kLayer,
     false,
     {{{"", 0},
       {"", 0},
       {"", 0},
       {"decoder.layers.{}.mlp.router.", 6},
       {"decoder.layers.{}.mlp.router.", 6},
       {"decoder.layers.{}.mlp.router.", 6}}},
     "",
     {Partition::kReplicated, Presence::kExperts, {Extent::kExpertCount, Extent::kHidden}},
     {Partition::kReplicated, Presence::kRouterBias, {Extent::kExpertCount, Extent::kNone}},
     "expert_bias"},
    {Placement::kLayer,
     true,
     {{{"language_model.encoder.layers.{}.mlp.dense_h_to_4h.", 4},
       {"language_model.transformer.layers.{}.mlp.dense_h_to_4h.", 4},
       {"transformer.layers.{}.mlp.dense_h_to_4h.", 4},
       {"decoder.layers.{}.mlp.linear_fc1.", 7},
       {"decoder.layers.{}.mlp.linear_fc1.", 7},
       {"decoder.layers.{}.mlp.linear_fc1.", 7}}},
     "",
     {Partition::kGated, Presence::kAlways, {Extent::kMlpRows, Extent::kHidden}},
     {Partition::kGated, Presence::kLinearBias, {Extent::kMlpRows, Extent::kNone}}},
    {Placement::kLayer,
     true,
     {{{"language_model.encoder.layers.{}.mlp.dense_4h_to_h.", 5},
       {"language_model.transformer.layers.{}.mlp.dense_4h_to_h.", 5},
       {"transformer.layers.{}.mlp.dense_4h_to_h.", 5},
       {"decoder.layers.{}.mlp.linear_fc2.", 8},
       {"decoder.layers.{}.mlp.linear_fc2.", 8},
       {"decoder.layers.{}.mlp.linear_fc2.", 8}}},
     "",
     {Partition::kColumns, Presence::kAlways, {Extent::kHidden, Extent::kFfn}},
     kHiddenBias},
    {Placement::kLayer,
     false,
     {{{"", 0},
       {"", 0},
       {"", 0},
       {"decoder.layers.{}.mlp.linear_fc2.post_layernorm.", 8},
       {"decoder.layers.{}.mlp.linear_fc2.post_layernorm.", 8},
       {"decoder.layers.{}.mlp.linear_fc2.post_layernorm.", 8}}},
     "",
     kPostNorm,
     kPostNormBias},

    // Its own parameter comes before those of its modules.
    {Placement::kLayer,
     false,
     {{{"", 0},
       {"", 0},
       {"", 0},
       {"decoder.layers.{}.mlp.shared_experts.gate_", kBehindExperts},
       {"decoder.layers.{}.mlp.shared_experts.gate_", kBehindExperts},
       {"decoder.layers.{}.mlp.shared_experts.gate_", kBehindExperts}}},
     "",
     {Partition::kReplicated, Presence::kSharedGate, {Extent::kOne, Extent::kHidden}},
     kNoBias},
    {Placement::kLayer,
     false,
     {{{"", 0},
       {"", 0},
       {"", 0},
       {"decoder.layers.{}.mlp.shared_experts.linear_fc1.", kBehindExperts + 1},
       {"decoder.layers.{}.mlp.shared_experts.linear_fc1.", kBehindExperts + 1},
       {"decoder.layers.{}.mlp.shared_experts.linear_fc1.", kBehindExperts + 1}}},
     "",
     {Partition::kGated, Presence::kSharedExperts, {Extent::kSharedRows, Extent::kHidden}},
     {Partition::kGated, Presence::kSharedBias, {Extent::kSharedRows, Extent::kNone}}},
    {Placement::kLayer,
     false,
     {{{"", 0},
       {"", 0},
       {"", 0},
       {"decoder.layers.{}.mlp.shared_experts.linear_fc2.", kBehindExperts + 2},
       {"decoder.layers.{}.mlp.shared_experts.linear_fc2.", kBehindExperts + 2},
       {"decoder.layers.{}.mlp.shared_experts.linear_fc2.", kBehindExperts + 2}}},
     "",
     {Partition::kColumns, Presence::kSharedExperts, {Extent::kHidden, Extent::kSharedFfn}},
     {Partition::kReplicated, Presence::kSharedBias, {Extent::kHidden, Extent::kNone}}},

    // ---- after the layers
    {Placement::kFinal,
     false,
     {{{"language_model.encoder.final_layernorm.", 0},
       {"language_model.transformer.final_layernorm.", 0},
       {"transformer.final_layernorm.", 0},
       {"decoder.final_layernorm.", 0},
       {"decoder.final_layernorm.", 0},
       {"decoder.final_norm.", 0}}},
     "language_model.encoder.final_norm.",
     kNorm,
     kNormBias},
    {Placement::kOutput,
     true,
     {{{"language_model.output_layer.", 0},
       {"", 0},
       {"", 0},
       {"output_layer.", 0},
       {"output_layer.", 0},
       {"output_layer.", 0}}},
     "",
     {Partition::kVocabulary, Presence::kUntied, {Extent::kVocabulary, Extent::kHidden}},
     kNoBias},
    {Placement::kOutput,
     false,
     {{{"word_embeddings_for_head.", 1},
       {"word_embeddings_for_head.", 1},
       {"", 0},
       {"output_layer.", 1},
       {"output_layer.", 1},
       {"output_layer.", 1}}},
     "",
     {Partition::kVocabulary, Presence::kTiedCopy, {Extent::kVocabulary, Extent::kHidden}},
     kNoBias},
};

/// State that is carried along, and parts of experts in forms that no row above spells: known, so
/// that they are refused or passed over by name instead of counting as unknown. The patterns with a
/// layer's number come first, as the shorter ones match the same names.
constexpr OtherNameRow kOtherNames[] = {
    {R"((?:.+\.)?layers\.(\d+)\.(?:.+\.)?_extra_state)", Placement::kLayer, true, false},
    {R"((?:.+\.)?layers\.(\d+)\.mlp\.(?:router|experts|local_experts|shared_experts)\..+)",
     Placement::kLayer, false, true},
    {R"((?:.+\.)?layers\.(\d+)\.(?:.+\.)?rotary_(?:pos_)?emb\.inv_freq)", Placement::kLayer, true,
     false},
    {R"((?:.+\.)?final_(?:layer)?norm\._extra_state)", Placement::kFinal, true, false},
    {R"((?:.+\.)?output_layer\._extra_state)", Placement::kOutput, true, false},
    {R"((?:.+\.)?_extra_state)", Placement::kEmbedding, true, false},
    {R"((?:.+\.)?rotary_(?:pos_)?emb\.inv_freq)", Placement::kEmbedding, true, false},
};

}  // namespace

std::span<const ModuleRow> gpt_module_rows() { return kModules; }

std::span<const OtherNameRow> gpt_other_name_rows() { return kOtherNames; }

}  // namespace meg::model
