"""Stream consumers: keys stay in order through splits and merges. The controller assigns segments; the consumer
follows assignments and acknowledges cumulatively.
"""
