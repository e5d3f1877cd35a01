"""Root file systems: layers and images as files and directories. Archives are hostile input throughout."""
