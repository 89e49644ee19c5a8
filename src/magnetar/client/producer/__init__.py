"""Producers: values to messages, batches, chunks and receipts, for plain and partitioned topics; `scalable` holds the
publisher of scalable topics. It never imports the consumer.
"""
