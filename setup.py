"""What pyproject.toml cannot say: a wheel holds the package as it is now.

setuptools copies the package into build/lib and makes the wheel of that folder, with all that an
earlier build has left there, such as a module that was renamed since.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildAnew(build_py):
    """Copies the package into an empty folder, if that is the one that setuptools chose."""

    def run(self) -> None:
        chosen = Path(self.get_finalized_command("build").build_base)
        if not self.editable_mode and chosen in Path(self.build_lib).parents:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(cmdclass={"build_py": BuildAnew})
