"""One checker for every test that breaks things: what was sent, what was answered, what was delivered, and rules over
it.

The history is written down by whoever plays client, at the moment it knows something; a rule reads the history and
returns findings, each a sentence with the message it is about. Nothing here talks to a broker, and nothing trusts one.
"""
