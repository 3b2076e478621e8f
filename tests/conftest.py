"""What every test stands on."""

from hypothesis import settings

settings.register_profile("stayer", deadline=None, print_blob=True)
settings.load_profile("stayer")
