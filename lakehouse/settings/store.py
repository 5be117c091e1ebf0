"""The connection to an S3 store: the settings of [lake.options], as Hadoop calls them."""

from __future__ import annotations

from collections.abc import Mapping

S3 = "s3a://"
# Hadoop's name by the name in [lake.options].
NAMES = {
    "endpoint": "fs.s3a.endpoint",
    "region": "fs.s3a.endpoint.region",
    "path_style": "fs.s3a.path.style.access",
    "access_key": "fs.s3a.access.key",
    "secret_key": "fs.s3a.secret.key",
    "session_token": "fs.s3a.session.token",
}
DEFAULT_REGION = "us-east-1"  # what servers other than Amazon's expect


def hadoop_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options as Spark passes them to Hadoop. With an own endpoint a region has to be named: any will do."""
    hadoop_values = {f"spark.hadoop.{NAMES[name]}": value for name, value in options.items()}
    if "endpoint" in options:
        hadoop_values.setdefault("spark.hadoop.fs.s3a.endpoint.region", DEFAULT_REGION)
        hadoop_values["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(
            options["endpoint"].startswith("https")
        ).lower()
    if "session_token" in options:
        hadoop_values["spark.hadoop.fs.s3a.aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        )
    return hadoop_values
