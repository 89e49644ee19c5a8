"""Automatic splits and merges: policies, measured loads, and the pure evaluator that decides.

Nothing here measures, waits or writes: the leader of a topic collects loads, asks the evaluator and carries out its
actions, and the command line replays recorded loads. A caller passes the time and the times of earlier reshapes. The
package trusts the loads that it gets; it ignores loads that are measured for too short a time.
"""
