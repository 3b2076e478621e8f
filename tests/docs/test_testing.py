"""The page about tests of one's own code: its tests pass, and fail where the code is wrong."""

from __future__ import annotations

from tests.docs.pages import blocks
from tests.docs.reader import Reader

PYTEST = (
    "python3 -m pytest -q -p no:cacheprovider --disable-plugin-autoload"
    " -p stayer.testing.pytest_plugin test_shop.py test_resize.py"
)


def test_the_tests_of_the_page_pass_and_can_fail(reader: Reader) -> None:
    for block in blocks("how-to/test-your-code.md"):
        if block.title:
            reader.follow(block)
    assert "6 passed" in reader.run(PYTEST)

    code = (reader.folder / "shop.py").read_text()
    (reader.folder / "shop.py").write_text(code.replace('delay="3d"', 'delay="30d"'))
    assert "1 failed, 5 passed" in reader.run(PYTEST, expected=1)
