"""Policy values and settings in layers: broker, namespace, topic.

Says what holds and which layer said so; it carries nothing out. Values that come from files and people are checked here
once, with the key, the value and the expected form in the refusal.
"""
