"""The only way out of any box: policy, names, refusals and records, in a process of its own."""
