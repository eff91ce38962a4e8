#include "libmeg/samples/internal/packed_dataset.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "libmeg/dataset/index_format.h"

namespace meg::samples {
namespace {

/// Positions that a conversation of `length` tokens takes: nothing follows its last one.
int64_t positions_of(int64_t length) { return std::max<int64_t>(length - 1, 0); }

/// Hides from each position what comes later, and all of other documents.
void fill_attention_mask(std::span<const int64_t> lengths, size_t size, std::span<uint8_t> mask) {
  std::fill(mask.begin(), mask.end(), uint8_t{1});
  size_t first = 0;
  for (const int64_t length : lengths) {
    const size_t end = first + static_cast<size_t>(length);
    for (size_t i = first; i < end; ++i) {
      const auto row = mask.begin() + static_cast<std::ptrdiff_t>(i * size);
      std::fill(row + static_cast<std::ptrdiff_t>(first), row + static_cast<std::ptrdiff_t>(i + 1),
                uint8_t{0});
    }
    first = end;
  }
}

}  // namespace

Result<std::shared_ptr<const PackedFiles>> PackedFiles::open(const std::string& prefix,
                                                             int64_t sequence_length) {
  const dataset::IndexedDataset::Options options{.access = io::MappedFile::Access::kRandom};
  MEG_ASSIGN_OR_RETURN(dataset::IndexedDataset tokens,
                       dataset::IndexedDataset::open(prefix, options));
  const std::string mask_prefix = dataset::loss_mask_prefix(tokens.prefix());
  Result<dataset::IndexedDataset> masks = dataset::IndexedDataset::open(mask_prefix, options);
  if (!masks.has_value()) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: `sft`: expected a dataset of pack_dataset, with its mask beside it: {}",
                      prefix, masks.error().message());
  }
  if (masks->dtype() != DType::kUint8 ||
      !std::ranges::equal(tokens.sequence_lengths().bytes(), masks->sequence_lengths().bytes())) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected the mask of {}, uint8 for each of its tokens, found other "
                      "lengths",
                      mask_prefix, tokens.prefix());
  }
  std::shared_ptr<const PackedFiles> files(new PackedFiles(std::move(tokens), *std::move(masks)));
  for (int64_t document = 0; document < files->tokens_.document_count(); ++document) {
    const int64_t positions = files->positions(document, document + 1);
    if (positions <= sequence_length) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: document {}: expected at most `seq_length` {} positions, found {}: the "
                      "dataset was packed for longer sequences",
                      prefix, document, sequence_length, positions);
  }
  return files;
}

int64_t PackedFiles::positions(int64_t begin, int64_t end) const {
  const auto documents = tokens_.document_indices();
  const auto lengths = tokens_.sequence_lengths();
  const int64_t last = std::min<int64_t>(documents[end], lengths.size());
  int64_t positions = 0;
  for (int64_t i = std::max<int64_t>(documents[begin], 0); i < last; ++i) {
    positions += positions_of(lengths[i]);
  }
  return positions;
}

Result<dataset::SequenceRange> PackedDataset::sequences_of(int64_t sample) const {
  if (sample < 0 || sample >= size_) {
    return make_error(StatusCode::kOutOfRange, "{}: sample {}: expected 0 to {}", files_->prefix(),
                      sample, size_ - 1);
  }
  return files_->tokens().document(documents_.begin + sample % (documents_.end - documents_.begin));
}

Status PackedDataset::text(int64_t sample, int64_t pad, std::span<int64_t> out) const {
  MEG_ASSIGN_OR_RETURN(const dataset::SequenceRange sequences, sequences_of(sample));
  std::span<int64_t> left = out.first(static_cast<size_t>(text_length()));
  for (int64_t i = sequences.begin; i < sequences.end && !left.empty(); ++i) {
    MEG_ASSIGN_OR_RETURN(const int64_t length, files_->tokens().sequence_length(i));
    const auto part = left.first(std::min(left.size(), static_cast<size_t>(length)));
    MEG_RETURN_IF_ERROR(files_->tokens().copy_tokens(i, 0, part));
    left = left.subspan(part.size());
  }
  std::fill(left.begin(), left.end(), pad);
  return Status();
}

Status PackedDataset::fill(int64_t sample, const GptSampleOptions& options, std::span<int64_t> text,
                           const GptSampleFields& fields,
                           std::vector<int64_t>& document_lengths) const {
  MEG_ASSIGN_OR_RETURN(const dataset::SequenceRange sequences, sequences_of(sample));
  const size_t first_document = document_lengths.size();
  std::vector<int64_t> mask(text.size());
  size_t at = 0;
  for (int64_t i = sequences.begin; i < sequences.end; ++i) {
    MEG_ASSIGN_OR_RETURN(const int64_t length, files_->tokens().sequence_length(i));
    const auto positions = static_cast<size_t>(positions_of(length));
    if (positions == 0) continue;
    // Lengths were looked at when the files were opened; they may have changed since.
    if (positions > fields.tokens.size() - at) {
      return make_error(StatusCode::kCorruption,
                        "{}: sequence {}: expected room for it, found none", files_->prefix(), i);
    }
    const auto tokens = text.first(positions + 1);
    const auto learned = std::span(mask).first(positions + 1);
    MEG_RETURN_IF_ERROR(files_->tokens().copy_tokens(i, 0, tokens));
    MEG_RETURN_IF_ERROR(files_->masks().copy_tokens(i, 0, learned));
    for (size_t p = 0; p < positions; ++p) {
      fields.tokens[at + p] = tokens[p];
      fields.labels[at + p] = tokens[p + 1];
      fields.loss_mask[at + p] = learned[p + 1] != 0 ? 1.0F : 0.0F;
      fields.position_ids[at + p] = static_cast<int64_t>(p);
    }
    document_lengths.push_back(static_cast<int64_t>(positions));
    at += positions;
  }
  const int64_t pad = std::max<int64_t>(options.pad >= 0 ? options.pad : options.eod, 0);
  const size_t rest = fields.tokens.size() - at;
  for (; at < fields.tokens.size(); ++at) {
    fields.tokens[at] = pad;
    fields.labels[at] = pad;
    fields.loss_mask[at] = 0.0F;
    fields.position_ids[at] = 0;
  }
  if (rest > 0) document_lengths.push_back(static_cast<int64_t>(rest));
  if (!fields.attention_mask.empty()) {
    fill_attention_mask(std::span(document_lengths).subspan(first_document), fields.tokens.size(),
                        fields.attention_mask);
  }
  return Status();
}

Result<SampleSource> PackedDataset::source(int64_t sample) const {
  MEG_ASSIGN_OR_RETURN(const dataset::SequenceRange sequences, sequences_of(sample));
  SampleSource source;
  for (int64_t i = sequences.begin; i < sequences.end; ++i) {
    MEG_ASSIGN_OR_RETURN(const int64_t length, files_->tokens().sequence_length(i));
    source.parts.push_back({.sequence = i, .offset = 0, .length = length});
  }
  return source;
}

}  // namespace meg::samples
