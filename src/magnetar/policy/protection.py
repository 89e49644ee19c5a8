"""Keys that require a protection: authentication, authorization, TLS, encryption, quotas, rates, plug-ins that reject.

A broker that ignored such a key would serve all clients, while its operator relies on the protection. So a value that
requires an unsupported protection stops the start. Values of Pulsar's own files require none: a stock broker.conf and
standalone.conf start. Unknown keys are judged by their name.
"""

from __future__ import annotations

import re

from magnetar.policy.config_key import TEXT, Key

AUTHENTICATION = "authentication"
AUTHORIZATION = "authorization"
TLS = "TLS"
BOOKKEEPER = "credentials for BookKeeper"
ENCRYPTION = "encryption by every producer"
QUOTA = "a backlog quota"
RATE = "a rate limit"
ADDRESS = "a limit by client address"
LISTENERS = "listening on selected addresses only"
PLUGIN = "a plug-in that may refuse or filter"
SCHEMA = "schema checks"
CLIENTS = "client version checks"
NAMES = "name checks"
UNKNOWN = "an unknown protection"

_DOUBTFUL = re.compile(
    r"auth(?!ority)|tls|ssl|token|superuser|anonymoususer|proxyrole|sasl|jaas|kinit|encrypt|keystore|truststore"
    r"|credential|password|secret|jwt|oidc|athenz|jsse|backlogquota.*limit|throttling.*rate|publishrate",
    re.IGNORECASE,
)
_SECRET = re.compile(r"secret|password|token|key|param|credential|authconf", re.IGNORECASE)
_OFF = ("", "false", "no", "off", "none", "0", "-1")


def unmet_by_name(name: str, text: str) -> str:
    """The protection that a key outside of the table seems to require, by its name; empty if none."""
    if _DOUBTFUL.search(name) is None or text.strip().lower() in _OFF:
        return ""
    return UNKNOWN


def is_secret(name: str) -> bool:
    """Whether the value of the key is secret, and never shown in an error, in the log or over REST."""
    return _SECRET.search(name) is not None


def _keys(protects: str, *names: str, default: str = "", harmless: tuple[str, ...] = ()) -> list[Key]:
    doc = f"Asks for {protects}."
    return [
        Key(
            name, TEXT, default, doc, honoured=False, protects=protects, harmless=tuple(one.lower() for one in harmless)
        )
        for name in names
    ]


def _flags(protects: str, *names: str) -> list[Key]:
    return _keys(protects, *names, default="false")


def _limits(protects: str, *names: str) -> list[Key]:
    return _keys(protects, *names, default="0", harmless=("-1",))


PROTECTION: list[Key] = [
    *_keys(AUTHENTICATION, "athenzDomainNames", "basicAuthConf"),
    *_flags(AUTHENTICATION, "authenticateMetricsEndpoint", "authenticateOriginalAuthData", "strictAuthMethod"),
    *_keys(AUTHENTICATION, "authenticationRefreshCheckSeconds", default="60"),
    *_keys(AUTHENTICATION, "authenticationRoleLoggingAnonymizer", default="NONE"),
    *_keys(
        AUTHENTICATION,
        "brokerClientAuthenticationPlugin",
        harmless=(
            "org.apache.pulsar.client.impl.auth.AuthenticationDisabled",
            "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        ),
    ),
    *_keys(
        AUTHENTICATION,
        "tokenAllowedClockSkewSeconds",
        "tokenAudience",
        "tokenAudienceClaim",
        "tokenAuthClaim",
        "tokenPublicAlg",
        "tokenPublicKey",
        "tokenSecretKey",
    ),
    *_keys(AUTHENTICATION, "saslJaasBrokerSectionName", "saslJaasServerRoleTokenSignerSecretPath"),
    *_keys(AUTHENTICATION, "saslJaasClientAllowedIds", harmless=(".*pulsar.*",)),
    *_keys(AUTHENTICATION, "saslJaasServerSectionName", harmless=("PulsarBroker",)),
    *_keys(AUTHENTICATION, "kinitCommand", default="/usr/bin/kinit"),
    *_keys(AUTHENTICATION, "inflightSaslContextExpiryMs", default="30000"),
    *_keys(AUTHENTICATION, "maxInflightSaslContext", default="50000"),
    *_flags(AUTHORIZATION, "authorizationAllowWildcardsMatching"),
    *_keys(
        AUTHORIZATION,
        "authorizationProvider",
        default="org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider",
    ),
    *_keys(AUTHORIZATION, "proxyRoles"),
    *_flags(
        TLS,
        "brokerClientTlsEnabled",
        "brokerClientTlsEnabledWithKeyStore",
        "replicationTlsEnabled",
        "tlsAllowInsecureConnection",
        "tlsEnabled",
        "tlsEnabledWithKeyStore",
        "tlsRequireTrustedClientCertOnConnect",
    ),
    *_keys(
        TLS,
        "brokerClientCertificateFilePath",
        "brokerClientJsseProvider",
        "brokerClientKeyFilePath",
        "brokerClientSslProvider",
        "brokerClientTlsCiphers",
        "brokerClientTlsFactoryClassName",
        "brokerClientTlsFactoryConfig",
        "brokerClientTlsKeyStore",
        "brokerClientTlsKeyStorePassword",
        "brokerClientTlsProtocols",
        "brokerClientTlsTrustStore",
        "brokerClientTlsTrustStorePassword",
        "brokerClientTrustCertsFilePath",
        "jsseProvider",
        "tlsCertificateFilePath",
        "tlsCiphers",
        "tlsFactoryClassName",
        "tlsFactoryConfig",
        "tlsKeyFilePath",
        "tlsKeyStore",
        "tlsKeyStorePassword",
        "tlsProtocols",
        "tlsProvider",
        "tlsTrustCertsFilePath",
        "tlsTrustStore",
        "tlsTrustStorePassword",
        "webServiceTlsCiphers",
        "webServiceTlsProtocols",
    ),
    *_keys(
        TLS,
        "brokerClientTlsKeyStoreType",
        "brokerClientTlsTrustStoreType",
        "tlsKeyStoreType",
        "tlsTrustStoreType",
        default="JKS",
    ),
    *_keys(TLS, "tlsCertRefreshCheckDurationSec", default="300"),
    *_keys(TLS, "tlsHostnameVerificationEnabled", default="true", harmless=("false",)),
    *_keys(TLS, "brokerClientSslFactoryPluginParams", "sslFactoryPluginParams"),
    *_keys(
        TLS,
        "brokerClientSslFactoryPlugin",
        "sslFactoryPlugin",
        default="org.apache.pulsar.common.util.DefaultPulsarSslFactory",
    ),
    *_keys(TLS, "webServiceTlsProvider", harmless=("Conscrypt",)),
    *_keys(
        BOOKKEEPER,
        "bookkeeperClientAuthenticationParameters",
        "bookkeeperClientAuthenticationParametersName",
        "bookkeeperClientAuthenticationPlugin",
        "bookkeeperTLSCertificateFilePath",
        "bookkeeperTLSKeyFilePath",
        "bookkeeperTLSKeyStorePasswordPath",
        "bookkeeperTLSTrustCertsFilePath",
        "bookkeeperTLSTrustStorePasswordPath",
        "managedLedgerPassword",
    ),
    *_flags(BOOKKEEPER, "bookkeeperTLSClientAuthentication", "bookkeeper_tlsHostnameVerificationEnabled"),
    *_keys(BOOKKEEPER, "bookkeeperTLSKeyFileType", "bookkeeperTLSTrustCertTypes", default="PEM"),
    *_keys(BOOKKEEPER, "bookkeeperTLSProviderFactoryClass", default="org.apache.bookkeeper.tls.TLSContextFactory"),
    *_keys(BOOKKEEPER, "bookkeeperTlsCertFilesRefreshDurationSeconds", default="300"),
    *_flags(ENCRYPTION, "encryptionRequireOnProducer"),
    *_keys(QUOTA, "backlogQuotaDefaultLimitGB", default="-1", harmless=("0", "10")),  # 10 in Pulsar's standalone.conf
    *_limits(
        RATE,
        "brokerPublisherThrottlingMaxByteRate",
        "brokerPublisherThrottlingMaxMessageRate",
        "dispatchThrottlingRateInByte",
        "dispatchThrottlingRateInMsg",
        "dispatchThrottlingRatePerReplicatorInByte",
        "dispatchThrottlingRatePerReplicatorInMsg",
        "dispatchThrottlingRatePerSubscribeInByte",
        "dispatchThrottlingRatePerSubscriptionInByte",
        "dispatchThrottlingRatePerSubscriptionInMsg",
        "dispatchThrottlingRatePerTopicInByte",
        "dispatchThrottlingRatePerTopicInMsg",
        "httpMaxRequestSize",
        "maxPublishRatePerTopicInBytes",
        "maxPublishRatePerTopicInMessages",
        "subscribeThrottlingRatePerConsumer",
    ),
    *_flags(RATE, "dispatchThrottlingRateRelativeToPublishRate", "httpRequestsLimitEnabled"),
    *_limits(ADDRESS, "maxSameAddressConsumersPerTopic", "maxSameAddressProducersPerTopic"),
    *_keys(LISTENERS, "bindAddresses"),
    *_keys(PLUGIN, "brokerInterceptors", "entryFilterNames"),
    *_flags(CLIENTS, "clientLibraryVersionCheckEnabled"),
    *_flags(NAMES, "strictTopicNameEnabled"),
]
