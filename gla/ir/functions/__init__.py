"""What both front ends offer, on nodes: shapes, indexing, reductions, products, creation, control, random numbers.

Every function takes and gives `ir.Node`s (Python and NumPy scalars are taken where a value is); errors are raised at
the user's line.
"""
