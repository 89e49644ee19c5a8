"""AVRO values in messages: the definition of a class, the conversion of its values, and limits on foreign definitions.
It refuses definitions with which a small message can exhaust its reader, and leaves the bytes to fastavro, which it
trusts to check them.
"""
