"""The process engine: namespaces, seccomp and Landlock over the host's own tools."""
