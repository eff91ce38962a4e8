"""A store that moto plays, which checks signatures, for tests of programs that read objects of it."""
import json
import os
import sys
import urllib.request

from preprocess_case import PreprocessData
from s3_environment import built_module, clean_environment

try:
    import boto3
    from moto.server import ThreadedMotoServer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BUCKET = "some-texts"
EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


class MotoStore(PreprocessData):
    @classmethod
    def setUpClass(cls):
        cls.server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        cls.server.start()
        cls.addClassCleanup(cls.server.stop)
        cls.endpoint = "http://{}:{}".format(*cls.server.get_host_and_port())
        client = {"endpoint_url": cls.endpoint, "region_name": "us-east-1", "aws_access_key_id": "x",
                  "aws_secret_access_key": "x"}
        iam = boto3.client("iam", **client)
        iam.create_user(UserName="reader")
        iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(EVERYTHING))
        key = iam.create_access_key(UserName="reader")["AccessKey"]
        cls.access_key, cls.secret_key = key["AccessKeyId"], key["SecretAccessKey"]
        # From now on moto refuses what is not signed by that key.
        urllib.request.urlopen(urllib.request.Request(
            cls.endpoint + "/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"})).close()
        client |= {"aws_access_key_id": cls.access_key, "aws_secret_access_key": cls.secret_key}
        cls.s3 = boto3.client("s3", **client)
        cls.s3.create_bucket(Bucket=BUCKET)

    def setUp(self):
        super().setUp()
        if built_module() is None:
            self.skipTest("built without libcurl")
        self.environment = {**clean_environment(self.folder), "AWS_ENDPOINT_URL": self.endpoint,
                            "AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def put(self, key, content):
        """Puts an object and a file of this content; returns their address and path."""
        content = content.encode() if isinstance(content, str) else content
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=content)
        return f"s3://{BUCKET}/{key}", self.write(os.path.basename(key), content)
