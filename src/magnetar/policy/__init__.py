"""Policy values and settings in layers: broker, namespace, topic.

These modules return the effective value and its layer, and enforce nothing. Values from files and people are checked
here once; an error contains the key, the value and the expected form.
"""
