"""Trials: prompts x configurations x K x rules x temperatures, each beside plain decoding of the same prompt.

``plan`` says what is run, ``run`` runs it and tells ``events``, ``cells`` is what comes of it. All but the
running is torch-free.
"""
