"""How plain is the language of the code? Count conspicuous names and words, here and in httpx and rich.

    python -m benchmarks.language          one line of JSON with the figures and their bars
    python -m benchmarks.language --list   every name, word and class that counts, with its place

The figures are: the share of function names that begin with a participle or read like a fragment of a sentence, the
number of archaic words per 1,000 words of docstrings and documents, and the share of lines that have a comment. For
this repository, class names that two files of the package define are counted too.
"""

import argparse
import ast
import importlib.util
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.report import Report

ROOT = Path(__file__).resolve().parent.parent
PEERS = ("httpx", "rich")
BARS = {"participle_names": ("<=", 0.015), "archaic_words": ("<=", 0.1), "comment_lines": (">=", 0.02)}


def split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PARTICIPLES = split_words("""
    begun born bought bound brought built caught chosen done drawn driven fallen felt found given gone grown heard
    held hidden kept known left lent lost made meant met paid proven said seen sent shown sold spent spoken stood
    struck sworn taken taught thought told understood undone woken won worn written
""")
FRAGMENTS = split_words("""
    a about above after all along among an and another any anything at away because before behind below beneath
    beside besides between both but by down during each either else elsewhere ever every everything few for how if
    into in many more most much neither never no nobody none nor nothing of off once only or other others out over
    per perhaps same several since so some somebody something still such than that the their them then there these
    they this those though through thus till together too towards under until up upon what whatever when whence
    where whether which while who whoever whole whom whose why yet
""")
# Words that end like a participle but are not one, and nouns that may name a property or a value.
CONVENTIONAL = split_words("""
    feed bring embed seed need exceed proceed succeed speed bleed read spread thread shed sing ping string spring
    ring swing fling king thing timing heading setting listing rating ranking encoding padding embedding bedding
    wedding building meaning warning reembed
""")
ARCHAIC = re.compile(
    r"\b(whoever|whomever|nobody|anew|besides|likewise|at hand|for ever|whom|somebody|whence|thence|hence|hereby|"
    r"thereby|therein|thereof|thereto|wherein|whereof|whereby|upon|amongst|whilst|albeit|ere|lest|nay|aught|naught|"
    r"nought|shall|unto|henceforth|heretofore|hitherto|forthwith|notwithstanding|betwixt|behold|it be|be it|alike|"
    r"of old|no more than that|is to be had|stands for itself|as it were|thus far|needs must)\b",
    re.IGNORECASE,
)


@dataclass
class Counts:
    """The counts of one package."""

    functions: int = 0
    words: int = 0
    lines: int = 0
    comments: int = 0
    participles: list[str] = field(default_factory=list)
    archaic: list[str] = field(default_factory=list)
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def repeated_classes(self) -> dict[str, list[str]]:
        return {name: places for name, places in self.classes.items() if len(places) > 1}

    def compute_figures(self) -> dict[str, float]:
        return {
            "participle_names": round(len(self.participles) / max(1, self.functions), 4),
            "archaic_words": round(1000 * len(self.archaic) / max(1, self.words), 3),
            "comment_lines": round(self.comments / max(1, self.lines), 4),
        }


def is_participle_like(name: str) -> bool:
    """Return whether a function name begins with a participle, or with a word that cannot begin an instruction."""
    if name.startswith(("__", "test_")):
        return False
    first = name.strip("_").split("_")[0].lower()
    if first in CONVENTIONAL or name.strip("_") in CONVENTIONAL:
        return False
    return first in PARTICIPLES or first in FRAGMENTS or re.fullmatch(r"\w{2,}(ed|ing)", first) is not None


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is a property, which may have the name of a value."""
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def count_source(path: Path, label: str, counts: Counts) -> None:
    """Count the names, docstrings and comments of one Python file."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            counts.functions += 1
            if is_participle_like(node.name) and not is_property(node):
                counts.participles.append(f"{label}:{node.lineno} {node.name}")
        if isinstance(node, ast.ClassDef):
            counts.classes[node.name].append(f"{label}:{node.lineno}")
    for line, text in find_docstrings(tree):
        count_words(text, f"{label}:{line}", counts)
    counts.lines += sum(bool(line.strip()) for line in source.splitlines())
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    counts.comments += sum(token.type == tokenize.COMMENT for token in tokens)


def find_docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every string that is a statement: docstrings, and the notes below constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def count_words(text: str, label: str, counts: Counts) -> None:
    """Count the words of a text, and the archaic ones among them."""
    counts.words += len(re.findall(r"[A-Za-z']+", text))
    counts.archaic += [f"{label} {match.group()}" for match in ARCHAIC.finditer(text)]


def count_package(folders: Iterable[Path], root: Path) -> Counts:
    """Count everything in the Python files and documents below these folders or files."""
    counts = Counts()
    for folder in folders:
        files = [folder] if folder.is_file() else sorted(folder.rglob("*"))
        for path in files:
            label = str(path.relative_to(root))
            if path.suffix == ".py":
                count_source(path, label, counts)
            elif path.suffix == ".md":
                # Words in code are names, so code in a document is not counted.
                prose = re.sub(r"```.*?```|`[^`\n]+`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
                count_words(prose, label, counts)
    return counts


def count_peer(name: str) -> Counts:
    """Count an installed package in the same way."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is not installed; run `make setup`")
    folder = Path(spec.origin).parent
    return count_package([folder], folder.parent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print what counts, with its place")
    options = parser.parse_args()
    counts = count_package(
        [ROOT / "src/everhold", ROOT / "benchmarks", ROOT / "tests", ROOT / "docs", *sorted(ROOT.glob("*.md"))], ROOT
    )
    repeated = count_package([ROOT / "src/everhold"], ROOT).repeated_classes
    if options.list:
        for line in [*counts.participles, *counts.archaic]:
            print(line)
        for name, places in sorted(repeated.items()):
            print("repeated", name, *places)
        return
    report = Report("language")
    for name, value in counts.compute_figures().items():
        report.add(name, value, *BARS[name])
    report.add("repeated_classes", len(repeated), "==", 0)
    for peer in PEERS:
        for name, value in count_peer(peer).compute_figures().items():
            report.add(f"{peer}_{name}", value)
    sys.exit(report.finish())


if __name__ == "__main__":
    main()
