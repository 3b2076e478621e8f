"""The verbs: what anybody may do with tasks, flows, schedules and notices."""
