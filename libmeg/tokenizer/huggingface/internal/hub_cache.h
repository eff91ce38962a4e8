#pragma once

#include <optional>
#include <string>

namespace meg::tokenizer {

/// Where huggingface_hub keeps what it downloaded: $HF_HUB_CACHE, else $HUGGINGFACE_HUB_CACHE, else
/// `hub` in $HF_HOME, else `huggingface/hub` in $XDG_CACHE_HOME or in ~/.cache.
std::string hub_cache_folder();

/// The folder with the files of a model such as "gpt2" or "Qwen/Qwen2.5-7B", at the revision that
/// `main` last was; nullopt where the name is none of a model or the cache has no such model.
/// Nothing is downloaded: this is what transformers reads with HF_HUB_OFFLINE=1.
std::optional<std::string> cached_model_folder(const std::string& model);

}  // namespace meg::tokenizer
