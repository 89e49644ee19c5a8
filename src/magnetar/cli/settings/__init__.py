"""Settings of the command line and their sources: flags, environment, contexts and `client.conf`. Resolution is pure;
only the context file and the probe touch the system.
"""
