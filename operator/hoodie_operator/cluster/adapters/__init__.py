"""What `control.ports` asks for, done in a cluster: runs, observers, lock servers, fences.

Whatever these talk with belongs to tenants: answers are bounded, and hosts are looked up with care.
"""
