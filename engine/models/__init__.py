"""Models: found, fetched, converted, checked, loaded. One file for each kind of source.

``load.describe`` brings a model onto this machine and checks it, ``load.load_model`` loads it.
"""
