"""The calls between brokers and their answers, as values: about topics, about a broker, and calls that wait for an
event. `broker/peers` delivers and handles them.
"""
