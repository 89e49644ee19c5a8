"""Views of scalable topics for clients: layouts and the list of topics of a namespace, sent once at the start and then
as they change.
"""
