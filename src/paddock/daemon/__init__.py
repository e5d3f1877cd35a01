"""paddockd: one per user, started on demand, serving frames on a private unix socket."""
