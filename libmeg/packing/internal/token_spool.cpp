#include "libmeg/packing/internal/token_spool.h"

#include <utility>

namespace meg::packing {

Result<TokenSpool> TokenSpool::create(const std::string& prefix, DType dtype) {
  MEG_ASSIGN_OR_RETURN(io::AtomicFile tokens, io::AtomicFile::create_regular(prefix + ".tokens"));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile mask, io::AtomicFile::create_regular(prefix + ".masks"));
  return TokenSpool(std::move(tokens), std::move(mask), static_cast<size_t>(dtype_size(dtype)));
}

int64_t TokenSpool::reserve(std::span<const int32_t> lengths) {
  const int64_t first = tokens_taken_;
  for (const int32_t length : lengths) {
    lengths_.push_back(length);
    begins_.push_back(tokens_taken_);
    tokens_taken_ += length;
  }
  return first;
}

Status TokenSpool::write_at(int64_t first_token, std::span<const std::byte> tokens,
                            std::span<const uint8_t> mask) const {
  MEG_RETURN_IF_ERROR(tokens_.write_at(first_token * static_cast<int64_t>(item_size_), tokens));
  return mask_.write_at(first_token, std::as_bytes(mask));
}

Status TokenSpool::read(size_t conversation, std::vector<std::byte>& tokens,
                        std::vector<std::byte>& mask) const {
  const auto length = static_cast<size_t>(lengths_[conversation]);
  const int64_t begin = begins_[conversation];
  tokens.resize(length * item_size_);
  mask.resize(length);
  MEG_ASSIGN_OR_RETURN(const size_t got_tokens,
                       tokens_.read_at(begin * static_cast<int64_t>(item_size_), tokens));
  MEG_ASSIGN_OR_RETURN(const size_t got_mask, mask_.read_at(begin, mask));
  if (got_tokens == tokens.size() && got_mask == length) return Status();
  return make_error(StatusCode::kCorruption,
                    "{}: expected the tokens that were written there, found the end of the file",
                    tokens_.path());
}

}  // namespace meg::packing
