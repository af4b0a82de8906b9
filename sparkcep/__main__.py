"""``python -m sparkcep``: see :mod:`sparkcep.cli.cli`."""

import sys

from sparkcep.cli.cli import main

sys.exit(main())
