"""Commands of `magnetar topic`: list, create, show, delete, reshape, migrate, verify and policies. Shared rendering is
in `cli/output`, shared requests in `cli/scalable`.
"""
