"""Producers: encode values into messages, batches and chunks, and process receipts, for plain and partitioned topics;
`scalable` holds the publisher of scalable topics. This package never imports the consumer.
"""
