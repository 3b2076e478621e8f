"""The hands: nursery and keeper. Stdlib only, nothing of Stayer, so that they outlive upgrades."""
