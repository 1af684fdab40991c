"""What pyproject.toml cannot say: a wheel holds the package as it is now.

setuptools copies the package into build/lib and makes the wheel of that folder, with all that an
earlier build has left there, such as a module that was renamed since.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildAnew(build_py):
    """Copies the package into a folder in which nothing of it is left."""

    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(Path(self.build_lib) / "tinyattn", ignore_errors=True)
        super().run()


setup(cmdclass={"build_py": BuildAnew})
