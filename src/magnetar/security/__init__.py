"""Authentication and authorization: checked at every command, route and push.

Until authentication is supported, every client is anonymous and every action is allowed. The checks are already in
place, so that an implementation changes no caller.
"""
