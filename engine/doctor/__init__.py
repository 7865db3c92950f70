"""What this machine, these libraries and a pair are good for, found out before anything is loaded.

``facts`` and ``advice`` need no torch; ``examine`` finds the facts.
"""
