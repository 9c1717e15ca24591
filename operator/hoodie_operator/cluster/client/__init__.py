"""The client of the API server: where it is and as whom we ask it, requests, refusals, retries.

What is asked for belongs to the callers: nothing here names a kind, and nothing decides.
"""
