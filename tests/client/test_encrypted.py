"""Messages that the stock client encrypted: passed by and kept for whoever has the key, or discarded if asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulsar
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import magnetar

WAIT_MS = 60_000


@pytest.fixture
def keys(tmp_path: Path) -> Any:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return pulsar.CryptoKeyReader(str(public), str(private))


@pytest.mark.parametrize("discard", [False, True], ids=["kept", "discarded"])
@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_encrypted_message_is_skipped_without_acknowledgement(broker, topic, keys, batching, discard):
    stock = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        secret = stock.create_producer(topic, encryption_key="k", crypto_key_reader=keys, batching_enabled=batching)
        with magnetar.Client(broker.url) as client:
            consumer = client.subscribe(topic, "s", discard_encrypted=discard)
            secret.send(b"secret")
            client.create_producer(topic).send(b"plain")
            message = consumer.receive(15)
            assert message.data == b"plain"
            consumer.acknowledge(message, confirm=True)
            assert consumer._core()[1].counters.discarded == 1
        reading = stock.subscribe(topic, "s", crypto_key_reader=keys)
        if discard:
            with pytest.raises(pulsar.Timeout):
                reading.receive(500)
        else:
            assert reading.receive(WAIT_MS).data() == b"secret"
    finally:
        stock.close()
