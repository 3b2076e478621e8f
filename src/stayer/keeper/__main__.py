"""Run by path, without the package: `python -I -S …/keeper/__main__.py STATE_DIRECTORY`."""

import os
import sys
import types

package = types.ModuleType("keeper")
package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
sys.modules["keeper"] = package

from keeper.nursery import main  # type: ignore[import-not-found]  # noqa: E402

main()
