"""How an S3 store is reached: the settings of [lake.options], once, as Hadoop and as delta-rs call them."""

from __future__ import annotations

from collections.abc import Mapping

S3 = "s3a://"
# By the name in [lake.options]: Hadoop's, and that of delta-rs.
NAMES = {
    "endpoint": ("fs.s3a.endpoint", "aws_endpoint"),
    "region": ("fs.s3a.endpoint.region", "aws_region"),
    "path_style": ("fs.s3a.path.style.access", ""),
    "access_key": ("fs.s3a.access.key", "aws_access_key_id"),
    "secret_key": ("fs.s3a.secret.key", "aws_secret_access_key"),
    "session_token": ("fs.s3a.session.token", "aws_session_token"),
}
DEFAULT_REGION = "us-east-1"  # what servers other than Amazon's expect


def hadoop_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options as Spark passes them to Hadoop. With an own endpoint a region has to be named: any will do."""
    hadoop_values = {f"spark.hadoop.{NAMES[name][0]}": value for name, value in options.items()}
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
