"""Who are you, and what may you do. Asked at every command, route and push.

Until authentication is built everybody is anonymous and everything is allowed; the questions are asked in their places
already, so that building the answers changes no caller.
"""
