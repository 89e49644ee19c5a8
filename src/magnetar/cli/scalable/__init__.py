"""Requests and views of scalable topics that several commands share: topics, queues, seeks, segment trees and running
operations. All of it goes through the admin client.
"""
