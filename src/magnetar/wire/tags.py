"""The tags of protobuf fields that are read and written by hand: field number * 8 + wire type.

The names are those of the message and the field in `pulsar.proto`; a test compares each tag with the descriptor. Hot
readers keep the number itself, because a global name costs 2 to 5 % of `read_send`. A comment beside it has the name,
and a test compares both.
"""

from __future__ import annotations

from typing import Final

# The type of a command and its submessage; the length of the submessage follows.
OPEN_SEND: Final = b"\x08\x06\x32"
OPEN_SEND_RECEIPT: Final = b"\x08\x07\x3a"
OPEN_MESSAGE: Final = b"\x08\x09\x4a"
OPEN_ACK: Final = b"\x08\x0a\x52"
OPEN_FLOW: Final = b"\x08\x0b\x5a"
OPEN_REDELIVER: Final = b"\x08\x14\xa2\x01"

SEND_PRODUCER_ID: Final = 0x08
SEND_SEQUENCE_ID: Final = 0x10
SEND_NUM_MESSAGES: Final = 0x18
SEND_TXNID_LEAST_BITS: Final = 0x20
SEND_TXNID_MOST_BITS: Final = 0x28
SEND_HIGHEST_SEQUENCE_ID: Final = 0x30
SEND_IS_CHUNK: Final = 0x38
SEND_MARKER: Final = 0x40

SEND_RECEIPT_PRODUCER_ID: Final = 0x08
SEND_RECEIPT_SEQUENCE_ID: Final = 0x10
SEND_RECEIPT_MESSAGE_ID: Final = 0x1A
SEND_RECEIPT_HIGHEST_SEQUENCE_ID: Final = 0x20

MESSAGE_CONSUMER_ID: Final = 0x08
MESSAGE_MESSAGE_ID: Final = 0x12
MESSAGE_REDELIVERY_COUNT: Final = 0x18
MESSAGE_ACK_SET: Final = 0x20
MESSAGE_CONSUMER_EPOCH: Final = 0x28

ACK_CONSUMER_ID: Final = 0x08
ACK_ACK_TYPE: Final = 0x10
ACK_MESSAGE_ID: Final = 0x1A
ACK_VALIDATION_ERROR: Final = 0x20
ACK_TXNID_LEAST_BITS: Final = 0x30
ACK_TXNID_MOST_BITS: Final = 0x38
ACK_REQUEST_ID: Final = 0x40

FLOW_CONSUMER_ID: Final = 0x08
FLOW_MESSAGEPERMITS: Final = 0x10

ID_LEDGERID: Final = 0x08
ID_ENTRYID: Final = 0x10
ID_PARTITION: Final = 0x18
ID_BATCH_INDEX: Final = 0x20
ID_ACK_SET: Final = 0x28
ID_BATCH_SIZE: Final = 0x30

METADATA_PRODUCER_NAME: Final = 0x0A
METADATA_SEQUENCE_ID: Final = 0x10
METADATA_PUBLISH_TIME: Final = 0x18
METADATA_PARTITION_KEY: Final = 0x32
METADATA_COMPRESSION: Final = 0x40
METADATA_UNCOMPRESSED_SIZE: Final = 0x48
METADATA_NUM_MESSAGES_IN_BATCH: Final = 0x58
METADATA_ENCRYPTION_KEYS: Final = 0x6A
METADATA_PARTITION_KEY_B64_ENCODED: Final = 0x88
METADATA_ORDERING_KEY: Final = 0x92
METADATA_DELIVER_AT_TIME: Final = 0x98
METADATA_MARKER_TYPE: Final = 0xA0
METADATA_TXNID_LEAST_BITS: Final = 0xB0
METADATA_TXNID_MOST_BITS: Final = 0xB8
METADATA_HIGHEST_SEQUENCE_ID: Final = 0xC0
METADATA_NULL_VALUE: Final = 0xC8
METADATA_UUID: Final = 0xD2
METADATA_NUM_CHUNKS_FROM_MSG: Final = 0xD8
METADATA_CHUNK_ID: Final = 0xE8
METADATA_ENTRY_HASH_MIN: Final = 0x108
METADATA_ENTRY_HASH_MAX: Final = 0x110

SINGLE_PROPERTIES: Final = 0x0A
SINGLE_PARTITION_KEY: Final = 0x12
SINGLE_PAYLOAD_SIZE: Final = 0x18
SINGLE_EVENT_TIME: Final = 0x28
SINGLE_PARTITION_KEY_B64_ENCODED: Final = 0x30
SINGLE_SEQUENCE_ID: Final = 0x40
