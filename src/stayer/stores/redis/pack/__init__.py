"""What goes to the scripts: tasks, changes and handlers as MessagePack."""
