#pragma once

#include <span>
#include <string_view>

#include "libmeg/core/result.h"

namespace meg {

/// A revision of Megatron-LM and the behaviours in which revisions differ.
/// docs/megatron_versions.md lists the table.
struct MegatronVersion {
  std::string_view name;  ///< Such as "core_v0.9.0".

  /// preprocess_data leaves documents without tokens out; later revisions keep them, empty.
  bool skip_empty_documents;

  /// GPT2BPETokenizer goes through Hugging Face and turns the text of a special token, such as
  /// <|endoftext|>, into its id. Applied only where the user names a revision.
  bool gpt2_special_tokens_in_text;
};

/// Every revision that libmeg knows, oldest first.
std::span<const MegatronVersion> megatron_versions();

/// The newest one: what programs follow unless told otherwise.
const MegatronVersion& newest_megatron_version();

/// The row of a revision's name: `v2.6`, `6ef5bdc` (also longer forms of the hash), `core_v0.9.0`,
/// `core_r0.9.0`, `0.9.0`, `0.9`. A tag between two rows (0.9.2, 0.15.0rc3, v3.0) takes the lower
/// one. kInvalidArgument for anything else, with the accepted names.
Result<MegatronVersion> parse_megatron_version(std::string_view name);

}  // namespace meg
