"""Output of commands: tables, JSON, YAML, CSV, watched screens and dry runs. People get rounded and relative values,
pipes get exact ones; nothing here sends a request.
"""
