"""Stream consumers of scalable topics as the leader and their brokers know them: registrations, assignments,
coordination and stored plans. Decisions are in `machines`.
"""
