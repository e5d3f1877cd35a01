"""The process engine: namespaces, seccomp and Landlock over an allow-listed view of the host."""
