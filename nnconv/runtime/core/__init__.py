"""What the programming models share: devices, memory, tasks, programs and their cache.

Nothing here knows of NNAPI's or NNRt's codes: what goes wrong is an exception, and each programming
model says which of its codes that earns.
"""
