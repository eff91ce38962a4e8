"""What tests of object stores share."""
import glob
import os

import preprocess_case


def built_module():
    """The module that talks to stores, or None in a build without libcurl."""
    build = os.path.dirname(os.path.dirname(preprocess_case.PROGRAM))
    return next(iter(glob.glob(os.path.join(build, "lib*", "**", "libmeg_s3_module.so"), recursive=True)), None)


def clean_environment(home):
    """The environment without anybody's credentials and proxies."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("AWS_") and not name.lower().endswith("_proxy")}
    return {**kept, "HOME": home}
