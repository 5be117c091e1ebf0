"""Which options hold secrets, by their names: these are masked, others are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.run.start.doctor import Examined, _secret_values, _without_secrets
from lakehouse.settings.config import Options, load
from lakehouse.settings.sections import MASK

HIDDEN = (
    "sasl.password", "sasl.jaas.config", "sasl.oauthbearer.client.secret", "ssl.key.pem", "ssl.key.password",
    "ssl.keystore.key", "ssl_key_pem", "schema.registry.basic.auth.user.info", "basic-auth-user-info",
    "spark.hadoop.fs.s3a.access.key", "spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.session.token",
    "spark.hadoop.fs.s3a.encryption.key", "spark.hadoop.fs.s3a.server-side-encryption.key",
    "spark.hadoop.fs.azure.account.key.box.dfs.core.windows.net",
    "spark.hadoop.fs.azure.sas.container.box.blob.core.windows.net",
    "spark.hadoop.fs.azure.sas.fixed.token.box.dfs.core.windows.net",
    "spark.hadoop.fs.azure.account.oauth2.client.secret", "spark.hadoop.fs.gs.encryption.key",
    "spark.hadoop.google.cloud.auth.service.account.private.key", "fs.oss.accessKeyId", "fs.cosn.userinfo.secretKey",
    "spark.datasource.apikey", "spark.datasource.apiKey", "x-api-key", "spark.datasource.api_key", "accountKey",
    "SharedAccessKey", "SharedAccessSignature", "eventhubs.connectionString", "eventhubs.connection.string",
    "spark.datasource.pwd", "smtp.smtp_password", "core.some_key", "webserver.secret_key", "sas_url",
)  # fmt: skip
SHOWN = (
    "security.protocol", "sasl.mechanism", "sasl.username", "sasl.kerberos.service.name", "bootstrap.servers",
    "ssl.keystore.location", "ssl.truststore.location", "ssl.endpoint.identification.algorithm", "key.deserializer",
    "client.id", "fetch.max.bytes", "spark.sql.shuffle.partitions", "spark.hadoop.fs.s3a.endpoint",
    "spark.hadoop.fs.s3a.encryption.algorithm", "spark.hadoop.fs.azure.account.auth.type",
    "spark.executor.memory", "spark.jars.packages", "core.max_active_runs_per_dag", "spark.network.crypto.keyLength",
)  # fmt: skip


@pytest.mark.parametrize("name", HIDDEN)
def test_a_secret_is_masked(name: str) -> None:
    options = Options({name: "canary"})
    assert options.masked_values() == {name: MASK}
    assert "canary" not in repr(options)
    assert options[name] == "canary"


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_no_secret_is_shown(name: str) -> None:
    assert Options({name: "canary"}).masked_values() == {name: "canary"}


def test_doctor_leaves_out_the_same(tmp_path: Path) -> None:
    names = [name for name in HIDDEN if name.startswith("spark.")]
    options = json.dumps({name: f"canary-{number}" for number, name in enumerate(names)})
    settings = load(environ={"LAKEHOUSE_SPARK_OPTIONS": options}, start=tmp_path)
    assert "canary" not in repr(settings)
    found = Examined("lake", "problem", " ".join(settings.spark.options.values()), "")
    assert _without_secrets(found, _secret_values(settings)).found == " ".join([MASK] * len(names))
