#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/megatron/tokenizer_identity.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"
#include "libmeg/tokenizer/registry/internal/tokenizer_metadata.h"

namespace meg::tokenizer {

/// A flag without which a tokenizer cannot be built.
struct RequiredFlag {
  std::string_view flag;
  bool (*given)(const TokenizerOptions& options);
};

/// The revisions whose class of a type tells a GPTDataset its padding token.
enum class TellsPad {
  kAlways,
  kSinceCore015,  ///< Those with megatron.core.tokenizers, whichever class they use.
  kOfCoreClass,   ///< Only the class of megatron.core.tokenizers.
};

/// All that libmeg knows of one --tokenizer-type.
struct TokenizerType {
  std::string_view name;

  /// The library's name in megatron.core.tokenizers; empty if it reads no metadata.
  std::string_view library;

  std::span<const RequiredFlag> required;

  /// Builds it of options in which every required flag is given.
  Result<std::unique_ptr<Tokenizer>> (*open)(const TokenizerOptions& options);

  /// What its class of megatron/training/tokenizer/tokenizer.py is called in index caches.
  megatron::TokenizerIdentity (*legacy_identity)(const TokenizerOptions& options);

  /// What megatron.core.tokenizers calls it, but for the class. The release is the N of core_v0.N.
  megatron::TokenizerIdentity (*core_identity)(const TokenizerOptions& options, int release);

  /// megatron.core.tokenizers finds it by the type's name: no required flag is part of its
  /// identity.
  bool core_knows_name = false;

  TellsPad tells_pad = TellsPad::kAlways;

  /// Whether index caches of a revision name it; null: those of every revision that names any.
  bool megatron::MegatronVersion::*identified = nullptr;
};

/// Every type, in the order in which messages list them.
std::span<const TokenizerType> tokenizer_types();

/// kInvalidArgument, with the names of all types, if the type is unknown or empty.
Result<const TokenizerType*> find_tokenizer_type(std::string_view name);

/// What --tokenizer-metadata says; its defaults where the flag is not given or is not read: by the
/// older classes and by types without library. Errors: read_tokenizer_metadata's; kUnsupported
/// where the library is another than the type's.
/// version: the revision that is followed.
Result<TokenizerMetadata> metadata_of(const TokenizerType& type, const TokenizerOptions& options,
                                      const megatron::MegatronVersion& version);

/// kInvalidArgument naming the first required flag that is not given.
Status check_required_flags(const TokenizerType& type, const TokenizerOptions& options);

}  // namespace meg::tokenizer
