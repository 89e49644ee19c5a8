"""REST resources of scalable topics: topics, segments, reshapes, seeks, migration, holds and sinks. The controller of
the topic decides; these modules translate requests and answers.
"""
