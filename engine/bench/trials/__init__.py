"""Trials: prompts x configurations x K x rules x temperatures against plain decoding, as ``spec bench`` runs them.

``plan`` says what is run, ``run`` runs it and tells ``events``, ``cells`` is what comes of it. All but the
running is torch-free.
"""
