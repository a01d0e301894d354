"""Python values: lazy arrays, functions, captures. gla/__init__.py shows what of it is public."""
