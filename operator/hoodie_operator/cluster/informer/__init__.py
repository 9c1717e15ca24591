"""What is known of the cluster: watched by Kopf, listed at times, and stored in its newest version.

Nothing here decides, and nothing here changes anything.
"""
