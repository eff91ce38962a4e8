#include "libmeg/s3/internal/module/store_settings.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "tests/temp_folder.h"

extern char** environ;

namespace meg::s3 {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kKeys = "aws_access_key_id = AKIDFILE\naws_secret_access_key = file secret\n";

/// A machine that has only the settings of AWS that a test makes.
class StoreSettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      if (text.starts_with("AWS_")) before_.emplace(text.substr(0, text.find('=')), "");
    }
    for (auto& [name, value] : before_) {
      value = std::getenv(name.c_str());
      ::unsetenv(name.c_str());
    }
    set("AWS_SHARED_CREDENTIALS_FILE", folder_.path("credentials"));
    set("AWS_CONFIG_FILE", folder_.path("config"));
  }

  void TearDown() override {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }

  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }

  void set_keys() {
    set("AWS_ACCESS_KEY_ID", "AKIDENV");
    set("AWS_SECRET_ACCESS_KEY", "environment's secret");
  }

  void write(const std::string& name, const std::string& text) {
    test::write_file(folder_.path(name), text);
  }

  StoreSettings read() {
    const Result<StoreSettings> settings = read_store_settings();
    EXPECT_TRUE(settings.has_value()) << settings.error().message();
    return settings.has_value() ? *settings : StoreSettings();
  }

  Status refusal() {
    const Result<StoreSettings> settings = read_store_settings();
    EXPECT_FALSE(settings.has_value());
    return settings.has_value() ? Status() : settings.error();
  }

  test::TempFolder folder_;

 private:
  std::map<std::string, std::string> before_;
  std::vector<std::string> set_;
};

TEST_F(StoreSettingsTest, EnvironmentGoesBeforeFiles) {
  set_keys();
  set("AWS_SESSION_TOKEN", "token");
  set("AWS_REGION", "eu-west-1");
  set("AWS_DEFAULT_REGION", "eu-west-2");
  set("AWS_ENDPOINT_URL_S3", "http://store:9000//");
  set("AWS_ENDPOINT_URL", "http://other");
  set("AWS_CA_BUNDLE", "/etc/ca.pem");
  set("AWS_MAX_ATTEMPTS", "3");
  write("credentials", std::string("[default]\n") + kKeys);
  write("config", "[default]\nregion = us-west-2\nendpoint_url = http://file\nmax_attempts = 5\n");
  const StoreSettings found = read();
  EXPECT_EQ(found.access_key, "AKIDENV");
  EXPECT_EQ(found.secret_key, "environment's secret");
  EXPECT_EQ(found.session_token, "token");
  EXPECT_EQ(found.region, "eu-west-1");
  EXPECT_EQ(found.endpoint, "http://store:9000");
  EXPECT_EQ(found.certificates, "/etc/ca.pem");
  EXPECT_EQ(found.attempts, 3);
}

TEST_F(StoreSettingsTest, FilesGiveWhatTheEnvironmentLacks) {
  write("credentials", std::string("# comment\n[ default ]\n") + kKeys + "[other]\nregion = no\n");
  write("config",
        "[default]\nREGION=eu-north-1\ns3 =\n  region = nested\nendpoint_url = https://file/\n"
        "region = second\n");
  const StoreSettings found = read();
  EXPECT_EQ(found.access_key, "AKIDFILE");
  EXPECT_EQ(found.secret_key, "file secret");
  EXPECT_EQ(found.session_token, "");
  EXPECT_EQ(found.region, "eu-north-1");
  EXPECT_EQ(found.endpoint, "https://file");
  EXPECT_EQ(found.attempts, StoreSettings().attempts);
}

TEST_F(StoreSettingsTest, AProfileIsTakenFromBothFiles) {
  set("AWS_PROFILE", "cluster");
  write("credentials", std::string("[default]\naws_access_key_id = no\n[cluster]\n") + kKeys);
  write("config", "[profile cluster]\nregion = eu-central-1\n");
  EXPECT_EQ(read().access_key, "AKIDFILE");
  EXPECT_EQ(read().region, "eu-central-1");
}

TEST_F(StoreSettingsTest, AKeyAndASecretComeFromOneFile) {
  write("credentials", "[default]\naws_access_key_id = lonely\n");
  write("config", std::string("[default]\n") + kKeys);
  EXPECT_EQ(read().access_key, "AKIDFILE");
}

TEST_F(StoreSettingsTest, ConfiguredEndpointsMayBeIgnored) {
  set_keys();
  set("AWS_ENDPOINT_URL", "http://store");
  set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "True");
  EXPECT_EQ(read().endpoint, "");
}

TEST_F(StoreSettingsTest, MissingCredentialsSayWhereTheyWereLookedFor) {
  const Status status = refusal();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("AWS_ACCESS_KEY_ID"));
  EXPECT_THAT(status.message(), HasSubstr(folder_.path("credentials")));
}

TEST_F(StoreSettingsTest, AMissingProfileDoesNotGiveWayToOtherKeys) {
  set_keys();
  set("AWS_PROFILE", "absent");
  write("credentials", std::string("[default]\n") + kKeys);
  const Status status = refusal();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("found absent"));
}

TEST_F(StoreSettingsTest, OtherSourcesOfCredentialsAreRefusedByName) {
  for (const char* key : {"role_arn", "web_identity_token_file", "sso_session", "sso_start_url",
                          "sso_account_id", "credential_process"}) {
    write("config", std::string("[default]\n") + key + " = value\n");
    const Status status = refusal();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << key;
    EXPECT_THAT(status.message(), HasSubstr(std::string("profile default: ") + key));
  }
  write("config", "");
  for (const char* name : {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                           "AWS_CONTAINER_CREDENTIALS_FULL_URI"}) {
    set(name, "value");
    const Status status = refusal();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << name;
    EXPECT_THAT(status.message(), HasSubstr(name));
    ::unsetenv(name);
  }
}

TEST_F(StoreSettingsTest, OddSettingsAreRefusedWithoutTheSecret) {
  set("AWS_SECRET_ACCESS_KEY", "environment's secret");
  EXPECT_EQ(refusal().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refusal().message(), Not(HasSubstr("environment's secret")));
  set("AWS_ACCESS_KEY_ID", "AKIDENV");
  for (const char* attempts : {"0", "-1", "many", "3 "}) {
    set("AWS_MAX_ATTEMPTS", attempts);
    EXPECT_EQ(refusal().code(), StatusCode::kInvalidArgument) << attempts;
  }
  set("AWS_MAX_ATTEMPTS", "1");
  for (const char* endpoint : {"store:9000", "file:///etc/passwd"}) {
    set("AWS_ENDPOINT_URL", endpoint);
    EXPECT_EQ(refusal().code(), StatusCode::kInvalidArgument) << endpoint;
    EXPECT_THAT(refusal().message(), Not(HasSubstr("environment's secret")));
  }
}

TEST_F(StoreSettingsTest, ASectionOfServicesIsRefused) {
  set_keys();
  write("config", "[default]\nservices = mine\n");
  EXPECT_EQ(refusal().code(), StatusCode::kUnsupported);
  set("AWS_ENDPOINT_URL_S3", "http://store");
  EXPECT_EQ(read().endpoint, "http://store");
}

}  // namespace
}  // namespace meg::s3
