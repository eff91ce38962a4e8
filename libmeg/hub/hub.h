#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libmeg/hub/repositories.h"
#include "libmeg/hub/served_checkpoint.h"
#include "libmeg/serving/http/http_message.h"

namespace meg::hub {

struct HubOptions {
  ServingRules rules;
  /// Checkpoints that stay open after they were used.
  size_t max_open = 8;
  /// Downloads of weights at once; further ones get status 429.
  size_t max_downloads = 64;
  /// Bytes that all downloads may cache of matrices that are transposed.
  int64_t transposed_bytes = int64_t{128} << 20;
  /// Called with a line for each checkpoint that is opened or cannot be; may be empty.
  std::function<void(const std::string&)> log;
};

/// The runs in a folder as models of a Hugging Face hub: answers what huggingface_hub asks of one.
/// Nothing of a request becomes a path: names are looked up among those that were found.
class Hub {
 public:
  /// root: the folder, which rules.root becomes the path of.
  /// Errors: kNotFound and kInvalidArgument for what is no folder.
  static Result<std::unique_ptr<Hub>> open(const std::string& root, HubOptions options);

  ~Hub();

  /// The routes of a server that must not outlive this hub.
  std::vector<serving::HttpRoute> routes();

  const std::string& root() const;

  /// The repositories by now, as the root's page lists them.
  Result<RepositoryList> repositories();

 private:
  class Implementation;

  explicit Hub(std::unique_ptr<Implementation> implementation);

  std::unique_ptr<Implementation> implementation_;
};

}  // namespace meg::hub
