"""SQL cells in notebooks. ``%load_ext sparkcep`` gives ``%%sql``, ``%sql`` and, under a name that is always free,
``%%sparkcep``."""
