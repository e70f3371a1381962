"What pyproject.toml leaves to settings.ini: version, author, keywords, README, extras, package data."

import re
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ini = ConfigParser(delimiters=["="])
ini.read(Path(__file__).with_name("settings.ini"), encoding="utf-8")
cfg = ini["DEFAULT"]


class BuildWithResults(build_py):
    "Puts the results of the benchmarks into the package, where `benchmark_results` finds them."

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for path in Path(__file__).with_name("benchmarks").glob("*.json"):
            target = Path(self.build_lib, "sql_env", "benchmarks", path.name)
            self.mkpath(str(target.parent))
            self.copy_file(str(path), str(target))


def readme() -> str:
    "README for PyPI, which follows no relative links: pages and pictures by their address on GitHub."
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    pictures = cfg["git_url"].replace("github.com", "raw.githubusercontent.com")
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\g<1>{pictures}/main/", text)
    return re.sub(r"(?<!!)(\[[^]]*\]\()(?!https?:)", rf"\g<1>{cfg['git_url']}/blob/main/", text)


extras = {
    k.removesuffix("_requirements"): v.split()
    for k, v in cfg.items()
    if k.endswith("_requirements")
}

setup(
    version=cfg["version"],
    author=cfg["author"],
    author_email=cfg["author_email"],
    license="Apache-2.0",
    keywords=cfg["keywords"],
    long_description=readme(),
    long_description_content_type="text/markdown",
    extras_require=extras,
    packages=find_packages(include=[cfg["lib_name"], cfg["lib_name"] + ".*"]),
    include_package_data=False,
    package_data={
        cfg["lib_name"]: [
            "bundled/*",
            "worlds/*.toml",
            "worlds/*.txt",
            "assets/*",
            "nano/weights/*",
            "py.typed",
        ]
    },
    cmdclass={"build_py": BuildWithResults},
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
