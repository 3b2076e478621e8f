"""Run by path, without the package: `python -I -S …/task/prepare/__main__.py`."""

import os
import sys
import types

package = types.ModuleType("prepare")
package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
sys.modules["prepare"] = package

from prepare.attempt import main  # type: ignore[import-not-found]  # noqa: E402

main()
